/** The shape of each state: never colour alone. */
import {
  IconArrowBarToRight,
  IconBan,
  IconBolt,
  IconCheck,
  IconClock,
  IconDots,
  IconPencil,
  IconPlayerSkipForward,
  IconPlugX,
  IconRotateClockwise,
  IconSquareX,
  IconTrash,
  IconX,
  type Icon,
} from "@tabler/icons-react";
import type { AnyState } from "@/lib/state/states";
import classes from "./state.module.css";

const ICONS: Record<AnyState, Icon> = {
  blocked: IconDots,
  queued: IconClock,
  assigned: IconArrowBarToRight,
  running: IconRotateClockwise,
  lost: IconPlugX,
  cancelling: IconSquareX,
  done: IconCheck,
  cached: IconBolt,
  failed: IconX,
  cancelled: IconBan,
  skipped: IconPlayerSkipForward,
  draft: IconPencil,
  pending: IconClock,
  deleting: IconTrash,
};

export function StateIcon({ state, size = 14 }: { state: AnyState; size?: number }) {
  const Shape = ICONS[state];
  return (
    <Shape
      size={size}
      stroke={2.4}
      aria-hidden
      className={state === "running" ? classes.turning : undefined}
    />
  );
}
