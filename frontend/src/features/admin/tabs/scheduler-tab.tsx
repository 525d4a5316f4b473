/** What the scheduler holds now, its policy, and the button that stops everything. */
import { Button, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Confirm } from "@/components/ui/confirm";
import { Section } from "@/components/ui/page";
import { Loaded } from "@/components/ui/states-of-a-page";
import { complain, say } from "@/components/ui/toasts";
import { answer, api } from "@/lib/api/client";
import type { SchedulerState } from "@/lib/api/types";
import { count, memory, plural } from "@/lib/format/numbers";
import { stateQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function SchedulerTab() {
  const query = useQuery(stateQuery);
  return (
    <Loaded query={query}>
      {(state) => (
        <>
          <Overview state={state} />
          <Users state={state} />
          <Workers state={state} />
          <CancelAll />
        </>
      )}
    </Loaded>
  );
}

function Overview({ state }: { state: SchedulerState }) {
  const refresh = useRefresh();
  const choose = (policy: string) =>
    refresh(answer(api.PUT("/api/v1/admin/policy", { body: { policy } }))).then(
      () => say(`The policy is ${policy} from the next pass on`),
      complain,
    );
  return (
    <Section title="Now">
      <div className="row wrap" style={{ gap: 40, alignItems: "flex-start" }}>
        <Select
          label="Scheduling policy"
          data={state.policies}
          value={state.policy}
          onChange={(policy) => {
            if (policy !== null) void choose(policy);
          }}
        />
        <Figure label="Experiments" value={state.experiments} />
        <Figure label="Jobs waiting" value={state.waiting} />
        <Figure label="Jobs running" value={state.running} />
      </div>
      <p className="small soft">
        Since the start:{" "}
        {Object.entries(state.tally)
          .map(([name, value]) => `${name.replaceAll("_", " ")} ${count(value)}`)
          .join(", ")}
      </p>
      {!state.ready && <p style={{ color: "var(--danger)" }}>The scheduler is not ready.</p>}
    </Section>
  );
}

function Figure({ label, value }: { label: string; value: number }) {
  return (
    <div>
      <div className="soft">{label}</div>
      <div style={{ fontSize: 22, fontWeight: 600 }}>{count(value)}</div>
    </div>
  );
}

function Users({ state }: { state: SchedulerState }) {
  return (
    <Section title="Users on queues" about="What each user holds of what they may hold.">
      <div className="table-frame">
        <table className="table">
          <thead>
            <tr>
              <th>User</th>
              <th>Queue</th>
              <th className="number">Slots held</th>
              <th className="number">Priority</th>
              <th className="number">Waiting</th>
            </tr>
          </thead>
          <tbody>
            {state.users.map((load) => (
              <tr key={`${load.user_id} ${load.queue_id}`}>
                <td>{load.username}</td>
                <td>{load.queue}</td>
                <td className="number">
                  {load.held} of {load.slots}
                </td>
                <td className="number">{load.priority}</td>
                <td className="number">{load.waiting}</td>
              </tr>
            ))}
            {state.users.length === 0 && (
              <tr>
                <td colSpan={5} className="soft">
                  Nobody has anything to run.
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function Workers({ state }: { state: SchedulerState }) {
  return (
    <Section title="Workers">
      <div className="table-frame">
        <table className="table">
          <thead>
            <tr>
              <th>Worker</th>
              <th>State</th>
              <th className="number">Free cores</th>
              <th className="number">Free memory</th>
              <th className="number">Jobs</th>
            </tr>
          </thead>
          <tbody>
            {state.workers.map((load) => (
              <tr key={load.id}>
                <td>{load.name}</td>
                <td>{load.state}</td>
                <td className="number">
                  {load.cores_free} of {load.cores}
                </td>
                <td className="number">
                  {memory(load.memory_free_mb)} of {memory(load.memory_mb)}
                </td>
                <td className="number">{plural(load.running.length, "job")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

const WORDS = "cancel all";

function CancelAll() {
  const refresh = useRefresh();
  const [asking, setAsking] = useState(false);
  return (
    <Section title="Stop everything" about="Cancels every experiment of everybody that is pending or running.">
      <Button color="red" variant="light" onClick={() => setAsking(true)}>
        Cancel all experiments…
      </Button>
      <Confirm
        opened={asking}
        title="Cancel all experiments?"
        action="Cancel all"
        typed={WORDS}
        onClose={() => setAsking(false)}
        onConfirm={async () => {
          const body = { confirm: WORDS } as const;
          const { experiments } = await refresh(answer(api.POST("/api/v1/admin/cancel-all", { body })));
          say(`${plural(experiments, "experiment")} told to stop`);
        }}
      >
        Every running block of every user is killed. Finished blocks stay in the cache, so the
        experiments can be started again from where they are.
      </Confirm>
    </Section>
  );
}
