/** Many changes, one update: work that is put off to the next animation frame. */

export type Schedule = (run: () => void) => void;

/** A hidden tab gets no animation frames: there a timer keeps the state fresh. */
export const nextFrame: Schedule = (run) => {
  if (typeof document !== "undefined" && document.hidden) setTimeout(run, 250);
  else requestAnimationFrame(run);
};

/** Collects items and hands them over together, once per frame. */
export class FrameBatch<T> {
  private items: T[] = [];
  private planned = false;
  private readonly deliver: (items: T[]) => void;
  private readonly schedule: Schedule;

  constructor(deliver: (items: T[]) => void, schedule: Schedule = nextFrame) {
    this.deliver = deliver;
    this.schedule = schedule;
  }

  add(items: readonly T[]): void {
    this.items.push(...items);
    if (this.planned || this.items.length === 0) return;
    this.planned = true;
    this.schedule(() => this.flush());
  }

  flush(): void {
    this.planned = false;
    const items = this.items;
    this.items = [];
    if (items.length > 0) this.deliver(items);
  }

  clear(): void {
    this.items = [];
  }
}
