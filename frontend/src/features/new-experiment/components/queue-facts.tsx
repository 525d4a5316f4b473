/** What one may hold of a queue, where that comes from, and how busy it is. */
import type { UsableQueue } from "@/lib/api/types";
import { memory, plural } from "@/lib/format/numbers";
import { duration } from "@/lib/format/times";
import classes from "./card.module.css";

export function QueueFacts({ queue }: { queue: UsableQueue }) {
  const reputation = queue.reputation === 100 ? "" : `, times your reputation of ${queue.reputation} %`;
  return (
    <div className={`small soft ${classes.wide ?? ""}`}>
      You may hold {plural(queue.slots, "slot")} of {queue.total_slots} ({queue.base_slots} from the
      group {queue.slots_from}
      {reputation}) at priority {queue.priority} (from {queue.priority_from}). Each slot has{" "}
      {memory(queue.memory_mb)} and {duration(queue.time_limit_seconds)}. Now {queue.running} running,{" "}
      {queue.waiting} waiting.
    </div>
  );
}
