/** Parameters, environment, what it took, and every attempt. */
import { bytes, count, memory } from "@/lib/format/numbers";
import { clock, duration, secondsBetween } from "@/lib/format/times";
import type { BlockAttempt, BlockDetail } from "@/lib/api/types";
import classes from "./details.module.css";

export function Details({ detail }: { detail: BlockDetail }) {
  const parameters = Object.entries(detail.parameters);
  const statistics = Object.entries(detail.statistics ?? {});
  return (
    <div className={classes.details}>
      <h3>Parameters</h3>
      {parameters.length === 0 ? (
        <p className="soft">This algorithm has none.</p>
      ) : (
        <dl className="facts">
          {parameters.map(([name, value]) => (
            <Fact key={name} name={name} value={asText(value)} />
          ))}
        </dl>
      )}
      {statistics.length > 0 && (
        <>
          <h3>What it took</h3>
          <dl className="facts">
            {statistics.map(([name, value]) => (
              <Fact key={name} name={inWords(name)} value={measured(name, value)} />
            ))}
          </dl>
        </>
      )}
      <h3>Where</h3>
      <dl className="facts">
        <Fact name="Environment" value={detail.environment} />
        <Fact name="Queue" value={detail.queue} />
        <Fact name="Slots" value={String(detail.slots)} />
        <Fact name="Cache key" value={detail.key} mono />
      </dl>
      {detail.attempts.length > 0 && <Attempts attempts={detail.attempts} />}
    </div>
  );
}

function Fact({ name, value, mono = false }: { name: string; value: string; mono?: boolean }) {
  return (
    <>
      <dt>{name}</dt>
      <dd className={mono ? "mono" : undefined}>{value}</dd>
    </>
  );
}

function Attempts({ attempts }: { attempts: BlockAttempt[] }) {
  return (
    <>
      <h3>Attempts</h3>
      <div className="table-frame">
        <table className="table">
          <thead>
            <tr>
              <th>Part</th>
              <th>Attempt</th>
              <th>Worker</th>
              <th>Started</th>
              <th>Took</th>
              <th>Outcome</th>
            </tr>
          </thead>
          <tbody>
            {attempts.map((attempt) => (
              <tr key={attempt.id}>
                <td>{attempt.index + 1}</td>
                <td>{attempt.number}</td>
                <td>{attempt.worker}</td>
                <td className="nowrap">
                  {attempt.started_at === null ? "–" : clock(attempt.started_at)}
                </td>
                <td className="nowrap">
                  {attempt.started_at === null || attempt.ended_at === null
                    ? "–"
                    : duration(secondsBetween(attempt.started_at, attempt.ended_at, 0))}
                </td>
                <td>
                  {attempt.outcome ?? (attempt.ended_at === null ? "open" : "lost")}
                  {attempt.failure !== null && (
                    <div className="small soft">{attempt.failure.message}</div>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function inWords(name: string): string {
  const words = name.replace(/_(seconds|mb)$/, "").replaceAll("_", " ").replace("cpu", "CPU");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The unit is in the name. */
function measured(name: string, value: unknown): string {
  if (typeof value !== "number") return asText(value);
  if (name.endsWith("_seconds")) return duration(value);
  if (name.endsWith("_mb")) return memory(value);
  return name.startsWith("bytes") ? bytes(value) : count(value);
}
