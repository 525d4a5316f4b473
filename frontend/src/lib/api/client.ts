/** Requests to the server's API: the answer's body, or an ApiProblem that says what is wrong. */
import createClient from "openapi-fetch";
import type { paths } from "./schema";
import type { Place } from "./types";

export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly places: Place[];
  readonly requestId: string | null;

  constructor(status: number, body: ProblemBody) {
    super(body.detail ?? body.title ?? `The server answered ${status}`);
    this.name = "ApiProblem";
    this.status = status;
    this.code = body.code ?? "unknown";
    this.places = body.errors ?? [];
    this.requestId = body.request_id ?? null;
  }
}

export interface ProblemBody {
  title?: string;
  detail?: string;
  code?: string;
  errors?: Place[];
  request_id?: string;
}

/** The typed client; hand what it gives to `answer`. */
export const api = createClient<paths>({
  baseUrl: typeof location === "undefined" ? "" : location.origin,
  credentials: "same-origin",
  // Looked up at each call, so that it can be watched.
  fetch: (request) => globalThis.fetch(request),
});

const signedOutListeners = new Set<() => void>();

/** Called whenever the server says that nobody is signed in. */
export function onSignedOut(listener: () => void): () => void {
  signedOutListeners.add(listener);
  return () => signedOutListeners.delete(listener);
}

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a good answer; anything else is thrown as ApiProblem. */
export async function answer<T>(request: Promise<Answered<T>>): Promise<T> {
  const { data, error, response } = await request;
  if (response.ok) return data as T;
  if (response.status === 401) for (const listener of signedOutListeners) listener();
  throw new ApiProblem(response.status, problemOf(error, response));
}

function problemOf(error: unknown, response: Response): ProblemBody {
  if (typeof error === "object" && error !== null) return error;
  return { detail: `The server answered ${response.status} ${response.statusText}` };
}

/** The header that says on which revision an edit is based. */
export function ifMatch(revision: number): { "if-match": string } {
  return { "if-match": `"${revision}"` };
}

/** All parts of a list that is short by nature (queues, groups, …). */
export async function everything<T>(
  ask: (page: { limit: number; cursor?: string }) => Promise<{ items: T[]; next?: string | null }>,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask({ limit: 200, cursor });
    items.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return items;
}

/** What to tell a person about an error of any kind. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiProblem) return error.message;
  if (error instanceof TypeError) return "The server cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
