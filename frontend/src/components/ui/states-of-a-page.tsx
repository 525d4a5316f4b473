/** What stands where content is not there: nothing yet, not yet, or not to be had. */
import { Button, Loader } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { ApiProblem, messageOf } from "@/lib/api/client";
import classes from "./states-of-a-page.module.css";

export function Empty({
  title,
  children,
  action,
}: {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className={classes.empty}>
      <Mill />
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {action}
    </div>
  );
}

/** The brand's mark: a millstone with its furrows. */
export function Mill({ size = 44 }: { size?: number }) {
  const furrows = [0, 60, 120, 180, 240, 300];
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden className={classes.mill}>
      <circle cx="16" cy="16" r="14.5" />
      {furrows.map((angle) => (
        <path key={angle} d="M16 11.500 C17 9 17.500 6.500 16.800 3.500" transform={`rotate(${angle} 16 16)`} />
      ))}
      <circle cx="16" cy="16" r="2.800" className={classes.eye} />
    </svg>
  );
}

export function Loading({ label = "Loading…" }: { label?: string }) {
  return (
    <div className={classes.loading} role="status">
      <Loader size="sm" color="var(--ink-faint)" />
      <span>{label}</span>
    </div>
  );
}

export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof ApiProblem ? error : null;
  return (
    <div className={classes.problem} role="alert">
      <IconAlertTriangle size={18} aria-hidden />
      <div className="grow">
        <strong>{messageOf(error)}</strong>
        {problem !== null && problem.places.length > 0 && (
          <ul>
            {problem.places.slice(0, 20).map((place, index) => (
              <li key={index}>
                <code>{place.pointer}</code> {place.message}
              </li>
            ))}
          </ul>
        )}
        {problem?.requestId != null && problem.status >= 500 && (
          <p className="small">Request {problem.requestId}</p>
        )}
      </div>
      {retry !== undefined && (
        <Button size="xs" variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

interface Answer<T> {
  data: T | undefined;
  error: unknown;
  refetch: () => unknown;
}

/** Content once it is there; until then that it loads, or why it does not come. */
export function Loaded<T>({
  query,
  children,
}: {
  query: Answer<T>;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return children(query.data);
  if (query.error !== null) return <Problem error={query.error} retry={() => void query.refetch()} />;
  return <Loading />;
}
