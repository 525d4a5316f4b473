/** Times on the page; what ticks, ticks here without asking the server. */
import { useSyncExternalStore } from "react";
import { ago, duration, exact, secondsBetween } from "@/lib/format/times";

/** One clock for all of the page, that stands still while nobody looks at it. */
class SharedClock {
  private listeners = new Set<() => void>();
  private timer: ReturnType<typeof setInterval> | undefined;
  private value = Date.now();
  private readonly step: number;

  constructor(step: number) {
    this.step = step;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    this.timer ??= setInterval(() => {
      this.value = Date.now();
      for (const each of this.listeners) each();
    }, this.step);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  };

  read = () => (this.timer === undefined ? (this.value = roundDown(Date.now(), this.step)) : this.value);
}

function roundDown(value: number, step: number): number {
  return value - (value % step);
}

const seconds = new SharedClock(1000);
const halfMinutes = new SharedClock(30_000);
const still = () => () => undefined;

export function Ago({ time }: { time: string }) {
  const now = useSyncExternalStore(halfMinutes.subscribe, halfMinutes.read);
  return (
    <time dateTime={time} title={exact(time)} className="nowrap">
      {ago(time, now)}
    </time>
  );
}

/** How long something took, or has been going on for. */
export function Elapsed({ start, end }: { start: string | null; end: string | null }) {
  const ticking = start !== null && end === null;
  const now = useSyncExternalStore(ticking ? seconds.subscribe : still, seconds.read);
  if (start === null) return <span className="soft">–</span>;
  return <span className="nowrap">{duration(secondsBetween(start, end, now))}</span>;
}
