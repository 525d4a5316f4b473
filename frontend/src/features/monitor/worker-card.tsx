/** One worker: what it is, whether it is safe, what it does. */
import { IconAlertTriangle, IconShieldCheck } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { Ago } from "@/components/ui/times";
import type { MonitoredWorker } from "@/lib/api/types";
import { memory, plural } from "@/lib/format/numbers";
import classes from "./monitor.module.css";

export function WorkerCard({ worker }: { worker: MonitoredWorker }) {
  return (
    <article className={`card ${classes.worker ?? ""}`} data-unsafe={worker.sandbox === "none" || undefined}>
      <header className="row">
        <h3 className="fit grow" title={worker.name}>
          {worker.name}
        </h3>
        <span className={classes.state} data-worker={worker.state}>
          {worker.state}
        </span>
      </header>
      <p className="small soft">
        {worker.host} · {plural(worker.cores, "core")} · {memory(worker.memory_mb)} ·{" "}
        {worker.executor}
        {worker.version !== "" && ` · ${worker.version}`}
      </p>
      <Sandbox name={worker.sandbox} limits={worker.limits} />
      <p className="small">
        {worker.environments.map((each) => `${each.name} ${each.version}`).join(", ") ||
          "No environment found"}
      </p>
      <Running worker={worker} />
      <p className="small soft">
        {worker.last_seen === null ? (
          "Never seen"
        ) : (
          <>
            Seen <Ago time={worker.last_seen} />
          </>
        )}
      </p>
    </article>
  );
}

function Sandbox({ name, limits }: { name: string; limits: string }) {
  if (name === "none") {
    return (
      <p className={classes.unsafe}>
        <IconAlertTriangle size={16} aria-hidden /> No sandbox
      </p>
    );
  }
  return (
    <p className={`small ${classes.safe ?? ""}`}>
      <IconShieldCheck size={16} aria-hidden />
      <span>
        {name === "" ? "sandbox unknown" : name}
        {limits !== "" && <span className="soft">, limits by {limits}</span>}
      </span>
    </p>
  );
}

function Running({ worker }: { worker: MonitoredWorker }) {
  if (worker.running.length === 0) return <p className="small soft">Runs nothing now.</p>;
  return (
    <ul className={classes.jobs}>
      {worker.running.map((job, index) => (
        <li key={index} className="fit">
          {job.experiment_id != null && job.block != null ? (
            <Link to="/experiments/$id" params={{ id: job.experiment_id }} search={{ block: job.block }}>
              {job.experiment ?? "experiment"} / {job.block}
            </Link>
          ) : (
            <span className="soft">a job of somebody else</span>
          )}
        </li>
      ))}
    </ul>
  );
}
