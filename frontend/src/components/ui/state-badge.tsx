/** A state in a word, with its icon and colour; the tooltip says what it means. */
import { Tooltip } from "@mantine/core";
import { STATE_MEANING, type AnyState } from "@/lib/state/states";
import { StateIcon } from "./state-icon";
import classes from "./state.module.css";

export function StateBadge({ state, large = false }: { state: AnyState; large?: boolean }) {
  return (
    <Tooltip label={STATE_MEANING[state]}>
      <span className={classes.badge} data-state={state} data-large={large || undefined}>
        <StateIcon state={state} size={large ? 15 : 13} />
        {state}
      </span>
    </Tooltip>
  );
}
