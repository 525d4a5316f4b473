/** One WebSocket for the whole tab: opens, opens again with back-off, hands frames to feeds. */
import { createStore } from "zustand/vanilla";
import { CLOSE, parseFrame, SUBPROTOCOL, type ClientFrame, type ServerFrame } from "./protocol";

export interface ConnectionState {
  phase: "idle" | "connecting" | "open" | "waiting" | "signed-out";
  /** attempts in a row that did not open */
  failures: number;
  /** milliseconds since the epoch of the next attempt, while waiting */
  retryAt: number | null;
}

/** The part of WebSocket that is used here. */
export interface Socket {
  send: (text: string) => void;
  close: (code?: number) => void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  onerror: (() => void) | null;
}

export interface ConnectionOptions {
  open: () => Socket;
  /** called on each (re)opened socket: send the subscriptions */
  onOpen: (send: (frame: ClientFrame) => void) => void;
  onFrame: (frame: ServerFrame) => void;
  onSignedOut: () => void;
  setTimer?: (run: () => void, milliseconds: number) => unknown;
  random?: () => number;
  now?: () => number;
}

const FIRST_WAIT = 400;
const LONGEST_WAIT = 15_000;

/** Doubles up to 15 s, half of it by chance, so that a restart does not bring all tabs at once. */
export function backOff(failures: number, random: number): number {
  const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.max(0, failures - 1));
  return Math.round(longest / 2 + (random * longest) / 2);
}

export class LiveConnection {
  readonly state = createStore<ConnectionState>(() => ({
    phase: "idle",
    failures: 0,
    retryAt: null,
  }));
  private socket: Socket | null = null;
  private timer = 0;
  private stopped = true;
  private readonly options: ConnectionOptions;

  constructor(options: ConnectionOptions) {
    this.options = options;
  }

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    this.timer++;
    this.drop();
    this.state.setState({ phase: "idle", failures: 0, retryAt: null });
  }

  /** Now, not at the end of the wait: the network came back or somebody pressed a button. */
  retryNow(): void {
    if (this.stopped || this.state.getState().phase !== "waiting") return;
    this.timer++;
    this.connect();
  }

  send(frame: ClientFrame): void {
    if (this.state.getState().phase === "open") this.socket?.send(JSON.stringify(frame));
  }

  private connect(): void {
    this.state.setState({ phase: "connecting", retryAt: null });
    const socket = this.options.open();
    this.socket = socket;
    socket.onopen = () => {
      this.state.setState({ phase: "open", failures: 0, retryAt: null });
      this.options.onOpen((frame) => socket.send(JSON.stringify(frame)));
    };
    socket.onmessage = (event) => {
      const frame = typeof event.data === "string" ? parseFrame(event.data) : null;
      if (frame !== null) this.options.onFrame(frame);
    };
    socket.onclose = (event) => {
      if (socket === this.socket) this.lost(event.code);
    };
    socket.onerror = () => undefined; // a close follows, and says more
  }

  private lost(code: number): void {
    this.drop();
    if (this.stopped) return;
    if (code === CLOSE.unauthenticated || code === CLOSE.expired) {
      this.stopped = true;
      this.state.setState({ phase: "signed-out", retryAt: null });
      this.options.onSignedOut();
      return;
    }
    this.wait(code);
  }

  private wait(code: number): void {
    const failures = this.state.getState().failures + 1;
    // "try again later" is said by a server under load: believe it.
    const busy = code === CLOSE.tryLater ? 3 : 0;
    const wait = backOff(failures + busy, (this.options.random ?? Math.random)());
    const now = (this.options.now ?? Date.now)();
    this.state.setState({ phase: "waiting", failures, retryAt: now + wait });
    const timer = ++this.timer;
    const setTimer = this.options.setTimer ?? setTimeout;
    setTimer(() => {
      if (timer === this.timer && !this.stopped) this.connect();
    }, wait);
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    if (socket === null) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}

/** The socket of the server that this page came from. */
export function browserSocket(): Socket {
  const url = new URL("/api/v1/ws", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url, SUBPROTOCOL) as unknown as Socket;
}
