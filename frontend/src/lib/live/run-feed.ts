/**
 * Keeps one experiment's store true: snapshot, replay, live, and what to do when any of them
 * breaks. The socket below may cut, delay, repeat or reorder; the store never misses an event.
 */
import { EventOrder } from "./feed";
import { FrameBatch, type Schedule } from "./frames";
import type { LiveEvent, ServerFrame } from "./protocol";
import { applyEvents, createRunStore, fromSnapshot, type RunSnapshot, type RunStore } from "./run-store";

export interface EventPage {
  events: LiveEvent[];
  lastSeq: number;
  ended: boolean;
}

/** What the feed asks the server for besides the socket. */
export interface RunSource {
  snapshot: () => Promise<RunSnapshot>;
  events: (after: number, wait: number) => Promise<EventPage>;
}

export interface RunFeedOptions {
  source: RunSource;
  /** tell the socket where we stand; does nothing while there is no socket */
  subscribe: (after: number) => void;
  schedule?: Schedule;
  /** seconds before a failed request is tried again */
  pause?: (attempt: number) => Promise<void>;
}

const seconds = (count: number) => new Promise<void>((go) => setTimeout(go, count * 1000));

export class RunFeed {
  readonly store: RunStore = createRunStore();
  private order = new EventOrder(0);
  private readonly batch: FrameBatch<LiveEvent>;
  private readonly options: RunFeedOptions;
  private readonly pause: (attempt: number) => Promise<void>;
  private loading: Promise<void> | null = null;
  private replaying: Promise<void> | null = null;
  private closed = false;
  private resyncWanted = false;

  constructor(options: RunFeedOptions) {
    this.options = options;
    this.pause = options.pause ?? ((attempt) => seconds(Math.min(30, 2 ** attempt / 2)));
    this.batch = new FrameBatch((events) => {
      this.store.setState((state) => applyEvents(state, events));
    }, options.schedule);
  }

  /** Where a new subscription goes on, or null while the snapshot is not there yet. */
  get position(): number | null {
    return this.store.getState().loaded && this.loading === null ? this.order.lastSeq : null;
  }

  /** Loads the snapshot and subscribes after it; again at each resync. */
  load(): Promise<void> {
    if (this.loading !== null) {
      this.resyncWanted = true;
      return this.loading;
    }
    this.loading = this.loadUntilThere().finally(() => {
      this.loading = null;
      if (!this.closed) this.options.subscribe(this.order.lastSeq);
    });
    return this.loading;
  }

  private async loadUntilThere(): Promise<void> {
    do {
      this.resyncWanted = false;
      const snapshot = await this.untilAnswered(() => this.options.source.snapshot());
      if (snapshot === null) return;
      this.batch.clear();
      this.order = new EventOrder(snapshot.seq);
      this.store.setState(fromSnapshot(snapshot));
      // eslint-disable-next-line @typescript-eslint/no-unnecessary-condition -- set while awaiting
    } while (this.resyncWanted);
  }

  receive(frame: ServerFrame): void {
    if (this.closed) return;
    switch (frame.type) {
      case "events":
        this.accept(frame.events);
        break;
      case "resync":
        void this.load();
        break;
      case "end":
        void this.finish(frame.last_seq);
        break;
      case "unsubscribed":
        this.store.setState({ refused: frame.reason });
        break;
      default:
        break;
    }
  }

  /** The experiment was started again: events go on after the end. */
  reopen(): void {
    this.store.setState({ ended: false, refused: null });
    if (this.position !== null) this.options.subscribe(this.order.lastSeq);
  }

  private accept(events: readonly LiveEvent[]): void {
    // What comes while a snapshot loads is in the snapshot, or is replayed after it.
    if (this.position === null) return;
    const { ready, hole } = this.order.accept(events);
    this.batch.add(ready);
    if (ready.some((event) => event.kind === "experiment")) this.store.setState({ ended: false });
    if (hole) void this.replay();
  }

  /** Fetches what is missing until there is no hole. */
  private replay(): Promise<void> {
    this.replaying ??= this.replayAll().finally(() => {
      this.replaying = null;
    });
    return this.replaying;
  }

  private async replayAll(): Promise<void> {
    for (let more = true; more && !this.closed; ) {
      const order = this.order;
      const page = await this.untilAnswered(() => this.options.source.events(order.lastSeq, 0));
      if (page === null || order !== this.order) return;
      const { ready, hole } = order.accept(page.events);
      this.batch.add(ready);
      more = page.events.length > 0 && (hole || order.lastSeq < page.lastSeq);
    }
  }

  private async finish(lastSeq: number): Promise<void> {
    await this.loading; // the end may come while a snapshot is on its way
    for (let tries = 0; this.order.lastSeq < lastSeq && !this.closed && tries < 3; tries++) {
      const before = this.order.lastSeq;
      await this.replay();
      if (this.order.lastSeq === before) await this.load(); // pruned: only a snapshot has it
    }
    this.batch.flush();
    this.store.setState({ ended: true });
  }

  /** For a network that lets no socket through: ask, wait, ask again, until `until` is true. */
  async poll(until: () => boolean): Promise<void> {
    while (!this.closed && !until()) {
      if (this.position === null || this.store.getState().ended) {
        await this.pause(1);
        continue;
      }
      const order = this.order;
      const page = await this.untilAnswered(() => this.options.source.events(order.lastSeq, 20));
      if (page === null || order !== this.order) continue;
      this.batch.add(order.accept(page.events).ready);
      if (page.events.length === 0) await this.pause(1); // whatever the server does about `wait`
      if (page.ended && order.lastSeq >= page.lastSeq) await this.finish(page.lastSeq);
    }
  }

  close(): void {
    this.closed = true;
    this.batch.clear();
  }

  private isClosed(): boolean {
    return this.closed;
  }

  /** Tries until there is an answer; null when closed meanwhile or refused for good. */
  private async untilAnswered<T>(ask: () => Promise<T>): Promise<T | null> {
    for (let attempt = 0; !this.closed; attempt++) {
      try {
        const answer = await ask();
        return this.isClosed() ? null : answer;
      } catch (error) {
        if (isRefusal(error)) {
          this.store.setState({ refused: error.message });
          return null;
        }
        await this.pause(attempt);
      }
    }
    return null;
  }
}

/** An answer such as 404 will not change by asking again. */
function isRefusal(error: unknown): error is Error & { status: number } {
  if (!(error instanceof Error) || !("status" in error)) return false;
  const status = Number(error.status);
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}
