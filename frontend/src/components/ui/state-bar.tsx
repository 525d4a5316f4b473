/** Blocks of a run by state: a thin stacked bar for lists, and a legend that filters. */
import { Tooltip } from "@mantine/core";
import { BAR_ORDER, STATE_MEANING, type BlockState, type Counts } from "@/lib/state/states";
import { StateIcon } from "./state-icon";
import classes from "./state.module.css";

function present(counts: Counts): [BlockState, number][] {
  return BAR_ORDER.flatMap((state) => {
    const number = counts[state] ?? 0;
    return number > 0 ? [[state, number] as [BlockState, number]] : [];
  });
}

function inWords(counts: Counts): string {
  return present(counts)
    .map(([state, number]) => `${number} ${state}`)
    .join(", ");
}

export function StateBar({ counts }: { counts: Counts }) {
  const parts = present(counts);
  if (parts.length === 0) return <span className={classes.bar} aria-hidden />;
  return (
    <Tooltip label={inWords(counts)}>
      <span className={classes.bar} role="img" aria-label={inWords(counts)}>
        {parts.map(([state, number]) => (
          <i key={state} data-state={state} style={{ flexGrow: number }} />
        ))}
      </span>
    </Tooltip>
  );
}

interface LegendProps {
  counts: Counts;
  /** states that are shown; none means all */
  chosen: ReadonlySet<BlockState>;
  onToggle: (state: BlockState) => void;
}

export function StateLegend({ counts, chosen, onToggle }: LegendProps) {
  return (
    <div className={classes.legend} role="group" aria-label="Show only blocks that are">
      {present(counts).map(([state, number]) => (
        <Tooltip key={state} label={STATE_MEANING[state]}>
          <button
            type="button"
            className={classes.legendItem}
            data-state={state}
            aria-pressed={chosen.has(state)}
            data-off={(chosen.size > 0 && !chosen.has(state)) || undefined}
            onClick={() => onToggle(state)}
          >
            <StateIcon state={state} size={13} />
            {state}
            <b>{number}</b>
          </button>
        </Tooltip>
      ))}
    </div>
  );
}
