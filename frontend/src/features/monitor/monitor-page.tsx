/** The farm now: how full its queues are, and what its workers do. */
import { useQuery } from "@tanstack/react-query";
import { Page, Section } from "@/components/ui/page";
import { Empty, Loaded } from "@/components/ui/states-of-a-page";
import type { Monitor } from "@/lib/api/types";
import { plural } from "@/lib/format/numbers";
import { monitorQuery } from "./api/get-monitor";
import { WorkerCard } from "./worker-card";
import classes from "./monitor.module.css";

export function MonitorPage() {
  const query = useQuery(monitorQuery);
  return (
    <Page title="Monitor" about="Queues and workers as the scheduler sees them now.">
      <Loaded query={query}>
        {(monitor) => (
          <>
            <Section title="Queues">
              <Queues queues={monitor.queues} />
            </Section>
            <Section title="Workers">
              <Workers workers={monitor.workers} />
            </Section>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Queues({ queues }: { queues: Monitor["queues"] }) {
  if (queues.length === 0) return <Empty title="There is no queue yet" />;
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          <tr>
            <th>Queue</th>
            <th>Slots in use</th>
            <th className="number">Running</th>
            <th className="number">Waiting</th>
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <tr key={queue.id}>
              <td className={classes.name}>{queue.name}</td>
              <td>
                <Fill used={queue.slots_used} total={queue.slots_total} />
              </td>
              <td className="number">{queue.running}</td>
              <td className="number">{queue.waiting}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Fill({ used, total }: { used: number; total: number }) {
  return (
    <div className={classes.fill}>
      <meter
        className={classes.meter}
        min={0}
        max={Math.max(total, used, 1)}
        value={used}
        aria-label="Slots in use"
      />
      <span className="nowrap">
        {used} of {total}
      </span>
    </div>
  );
}

function Workers({ workers }: { workers: Monitor["workers"] }) {
  if (workers.length === 0) {
    return (
      <Empty title="No worker has registered yet">
        An administrator makes a credential for one; then <code>gristmill worker --server …</code>{" "}
        on any machine with a token joins it to the farm.
      </Empty>
    );
  }
  const unsafe = workers.filter((worker) => worker.sandbox === "none");
  return (
    <div className="stack">
      {unsafe.length > 0 && (
        <div className={classes.loud} role="alert">
          <b>{plural(unsafe.length, "worker runs", "workers run")} without a sandbox.</b> What
          experiments run there can read and change whatever the worker's account can.
        </div>
      )}
      <div className={classes.workers}>
        {workers.map((worker) => (
          <WorkerCard key={worker.id} worker={worker} />
        ))}
      </div>
    </div>
  );
}
