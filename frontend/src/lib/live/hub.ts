/** The tab's live part as the features see it: watch a run, watch the list, know the connection. */
import { browserSocket, LiveConnection, type Socket } from "./connection";
import type { ListedExperiment, ServerFrame } from "./protocol";
import { RunFeed, type RunSource } from "./run-feed";
import type { RunStore } from "./run-store";
import { FrameBatch, type Schedule } from "./frames";

/** After so many failed attempts the network is taken to let no socket through. */
const POLL_AFTER = 3;
/** A feed is kept this long after its last watcher left: going back to a page is instant. */
const LINGER_MS = 30_000;

interface Watched {
  feed: RunFeed;
  watchers: number;
  polling: boolean;
  started: boolean;
}

export interface LiveHubOptions {
  open?: () => Socket;
  source: (experiment: string) => RunSource;
  onSignedOut: () => void;
  schedule?: Schedule;
}

export class LiveHub {
  readonly connection: LiveConnection;
  private readonly options: LiveHubOptions;
  private readonly runs = new Map<string, Watched>();
  private readonly listeners = new Set<(changed: ListedExperiment[]) => void>();
  private readonly listBatch: FrameBatch<ListedExperiment>;
  private missedList = false;

  constructor(options: LiveHubOptions) {
    this.options = options;
    this.listBatch = new FrameBatch((changed) => {
      for (const listener of this.listeners) listener(changed);
    }, options.schedule);
    this.connection = new LiveConnection({
      open: options.open ?? browserSocket,
      onOpen: () => this.subscribeAll(),
      onFrame: (frame) => this.receive(frame),
      onSignedOut: options.onSignedOut,
    });
    this.connection.state.subscribe((state) => {
      if (state.failures >= POLL_AFTER) this.pollAll();
    });
  }

  /** The store of a run, kept true until `release` is called. */
  watch(experiment: string): { store: RunStore; release: () => void } {
    const watched = this.runs.get(experiment) ?? this.begin(experiment);
    watched.watchers++;
    if (!watched.started) {
      watched.started = true;
      void watched.feed.load();
      this.connection.start();
    }
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      watched.watchers--;
      setTimeout(() => this.forget(experiment), LINGER_MS);
    };
    return { store: watched.feed.store, release };
  }

  /** The store of a run that is about to be watched: nothing is asked for yet. */
  store(experiment: string): RunStore {
    return (this.runs.get(experiment) ?? this.begin(experiment)).feed.store;
  }

  /** Called with the experiments that changed; with none when changes may have been missed. */
  watchList(listener: (changed: ListedExperiment[]) => void): () => void {
    this.listeners.add(listener);
    this.connection.start();
    this.connection.send({ type: "subscribe", list: true });
    return () => this.listeners.delete(listener);
  }

  /** The experiment was started again. */
  reopen(experiment: string): void {
    this.runs.get(experiment)?.feed.reopen();
  }

  private begin(experiment: string): Watched {
    const feed = new RunFeed({
      source: this.options.source(experiment),
      subscribe: (after) => this.connection.send({ type: "subscribe", experiment, after }),
      schedule: this.options.schedule,
    });
    const watched = { feed, watchers: 0, polling: false, started: false };
    this.runs.set(experiment, watched);
    return watched;
  }

  private forget(experiment: string): void {
    const watched = this.runs.get(experiment);
    if (watched === undefined || watched.watchers > 0) return;
    watched.feed.close();
    this.runs.delete(experiment);
    this.connection.send({ type: "unsubscribe", experiment });
  }

  private subscribeAll(): void {
    if (this.listeners.size > 0) {
      this.connection.send({ type: "subscribe", list: true });
      if (this.missedList) for (const listener of this.listeners) listener([]);
    }
    this.missedList = true;
    for (const [experiment, { feed }] of this.runs) {
      const after = feed.position;
      if (after !== null) this.connection.send({ type: "subscribe", experiment, after });
    }
  }

  private receive(frame: ServerFrame): void {
    if (frame.type === "experiment") this.listBatch.add([frame.experiment]);
    else if (frame.type === "deleted" || (frame.type === "resync" && frame.experiment === null)) {
      for (const listener of this.listeners) listener([]);
    } else if (frame.type !== "error") {
      this.runs.get(frame.experiment ?? "")?.feed.receive(frame);
    }
  }

  private pollAll(): void {
    for (const watched of this.runs.values()) {
      if (watched.polling) continue;
      watched.polling = true;
      void watched.feed
        .poll(() => this.connection.state.getState().phase === "open")
        .finally(() => {
          watched.polling = false;
        });
    }
  }
}
