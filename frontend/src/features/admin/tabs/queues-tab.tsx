/** Queues, and the slots that a worker gives to one instead of the queue's own number. */
import { useQuery } from "@tanstack/react-query";
import { EditableTable, type Field, type Value, type Values } from "@/components/ui/editable-table";
import { Section } from "@/components/ui/page";
import { Loaded } from "@/components/ui/states-of-a-page";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { Environment, Queue } from "@/lib/api/types";
import { memory } from "@/lib/format/numbers";
import { duration } from "@/lib/format/times";
import { environmentsQuery, queuesQuery, sharesQuery, workersQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function QueuesTab() {
  const queues = useQuery(queuesQuery);
  const environments = useQuery(environmentsQuery);
  return (
    <>
      <Loaded query={queues}>
        {(rows) => (
          <Loaded query={environments}>{(offered) => <Queues rows={rows} environments={offered} />}</Loaded>
        )}
      </Loaded>
      <div style={{ height: 32 }} />
      <Shares />
    </>
  );
}

function fieldsOf(environments: Environment[]): Field[] {
  const options = environments.map((each) => ({ value: each.id, label: `${each.name} ${each.version}` }));
  return [
    { name: "name", label: "Name", type: "text", required: true },
    { name: "description", label: "Description", type: "long" },
    { name: "memory_mb", label: "Memory of a slot", type: "number", hint: "MiB", required: true, start: 1024 },
    { name: "time_limit_seconds", label: "Time limit", type: "number", hint: "seconds, of one job", required: true, start: 3600 },
    { name: "slots_per_worker", label: "Slots on every worker, at most", type: "number", required: true, start: 1 },
    { name: "cores_per_slot", label: "Cores of a slot", type: "number", required: true, start: 1 },
    { name: "environment_ids", label: "Environments", type: "choices", options, required: true, start: options.slice(0, 1).map((each) => each.value) },
    { name: "default_environment_id", label: "Default environment", type: "choice", options, start: options[0]?.value ?? null },
  ];
}

function bodyOf(values: Values) {
  return {
    name: String(values.name ?? ""),
    description: String(values.description ?? ""),
    memory_mb: Number(values.memory_mb),
    time_limit_seconds: Number(values.time_limit_seconds),
    slots_per_worker: Number(values.slots_per_worker),
    cores_per_slot: Number(values.cores_per_slot),
    environment_ids: values.environment_ids as string[],
  };
}

function Queues({ rows, environments }: { rows: Queue[]; environments: Environment[] }) {
  const refresh = useRefresh();
  const at = (queue: Queue) => ({
    params: { path: { queue_id: queue.id }, header: ifMatch(queue.revision) },
  });
  return (
    <EditableTable
      what="queue"
      rows={rows}
      fields={fieldsOf(environments)}
      keyOf={(queue) => queue.id}
      nameOf={(queue) => queue.name}
      columns={[
        { label: "Name", show: (queue) => queue.name },
        { label: "Slot", show: (queue) => `${memory(queue.memory_mb)}, ${duration(queue.time_limit_seconds)}, ${queue.cores_per_slot} cores` },
        { label: "Slots per worker", number: true, show: (queue) => queue.slots_per_worker },
        { label: "Environments", show: (queue) => queue.environments.map((each) => `${each.name} ${each.version}`).join(", ") },
      ]}
      valuesOf={(queue) => ({
        ...queue,
        environments: null,
        environment_ids: queue.environments.map((each) => each.id),
      })}
      onCreate={(values) => {
        const chosen = values.default_environment_id;
        const body = { ...bodyOf(values), default_environment_id: typeof chosen === "string" ? chosen : null };
        return refresh(answer(api.POST("/api/v1/queues", { body })));
      }}
      onChange={(queue, values) => {
        const body = { ...bodyOf(values), default_environment_id: String(values.default_environment_id) };
        return refresh(answer(api.PATCH("/api/v1/queues/{queue_id}", { ...at(queue), body })));
      }}
      onDelete={(queue) => refresh(answer(api.DELETE("/api/v1/queues/{queue_id}", at(queue))))}
    />
  );
}

function Shares() {
  const shares = useQuery(sharesQuery);
  const queues = useQuery(queuesQuery);
  const workers = useQuery(workersQuery);
  const refresh = useRefresh();
  const set = (queue: Value, worker: Value, slots: Value) =>
    refresh(
      answer(
        api.PUT("/api/v1/slot-shares/{queue_id}/{worker_id}", {
          params: { path: { queue_id: String(queue), worker_id: String(worker) } },
          body: { slots: Number(slots) },
        }),
      ),
    );
  return (
    <Section title="Slot shares" about="Slots of a queue on one worker, instead of the queue's own number.">
      <Loaded query={shares}>
        {(rows) => (
          <EditableTable
            what="slot share"
            rows={rows}
            keyOf={(share) => `${share.queue_id} ${share.worker_id}`}
            nameOf={(share) => `${share.queue} on ${share.worker}`}
            columns={[
              { label: "Queue", show: (share) => share.queue },
              { label: "Worker", show: (share) => share.worker },
              { label: "Slots", number: true, show: (share) => share.slots },
            ]}
            fields={[
              { name: "queue", label: "Queue", type: "choice", once: true, required: true, options: queues.data?.map((each) => ({ value: each.id, label: each.name })) ?? [] },
              { name: "worker", label: "Worker", type: "choice", once: true, required: true, options: workers.data?.map((each) => ({ value: each.id, label: each.name })) ?? [] },
              { name: "slots", label: "Slots", type: "number", required: true },
            ]}
            valuesOf={(share) => ({ slots: share.slots })}
            onCreate={(values) => set(values.queue ?? null, values.worker ?? null, values.slots ?? null)}
            onChange={(share, values) => set(share.queue_id, share.worker_id, values.slots ?? null)}
            onDelete={({ queue_id, worker_id }) =>
              refresh(
                answer(
                  api.DELETE("/api/v1/slot-shares/{queue_id}/{worker_id}", {
                    params: { path: { queue_id, worker_id } },
                  }),
                ),
              )
            }
          />
        )}
      </Loaded>
    </Section>
  );
}
