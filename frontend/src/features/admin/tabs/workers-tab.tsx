/** Workers (drain, resume, delete) and the credentials that let them in. */
import { Button, Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditableTable } from "@/components/ui/editable-table";
import { Section } from "@/components/ui/page";
import { Secret } from "@/components/ui/secret";
import { Loaded } from "@/components/ui/states-of-a-page";
import { Ago } from "@/components/ui/times";
import { complain } from "@/components/ui/toasts";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { Worker } from "@/lib/api/types";
import { memory } from "@/lib/format/numbers";
import { dateTime } from "@/lib/format/times";
import { credentialsQuery, workersQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function WorkersTab() {
  const query = useQuery(workersQuery);
  const refresh = useRefresh();
  return (
    <>
      <Section title="Workers" about="A draining worker finishes what it has and is given nothing new.">
        <Loaded query={query}>
          {(rows) => (
            <EditableTable
              what="worker"
              rows={rows}
              fields={[]}
              keyOf={(worker) => worker.id}
              nameOf={(worker) => worker.name}
              valuesOf={() => ({})}
              columns={[
                { label: "Name", show: (worker) => worker.name },
                { label: "State", show: (worker) => worker.state },
                { label: "Size", show: (worker) => `${worker.cores} cores, ${memory(worker.memory_mb)}` },
                { label: "Sandbox", show: (worker) => <Sandbox name={worker.sandbox} /> },
                { label: "Jobs", number: true, show: (worker) => worker.running },
                { label: "Seen", show: (worker) => (worker.last_seen === null ? "never" : <Ago time={worker.last_seen} />) },
              ]}
              more={(worker) => <DrainButton worker={worker} />}
              onDelete={(worker) =>
                refresh(
                  answer(
                    api.DELETE("/api/v1/workers/{worker_id}", {
                      params: { path: { worker_id: worker.id }, header: ifMatch(worker.revision) },
                    }),
                  ),
                )
              }
            />
          )}
        </Loaded>
      </Section>
      <Credentials />
    </>
  );
}

function Sandbox({ name }: { name: string }) {
  return name === "none" ? <b style={{ color: "var(--danger)" }}>none</b> : name;
}

function DrainButton({ worker }: { worker: Worker }) {
  const refresh = useRefresh();
  const draining = worker.state === "draining";
  const at = { params: { path: { worker_id: worker.id } } };
  const run = () =>
    refresh(
      answer(
        draining
          ? api.POST("/api/v1/workers/{worker_id}/resume", at)
          : api.POST("/api/v1/workers/{worker_id}/drain", at),
      ),
    ).catch(complain);
  return (
    <Button size="compact-xs" variant="default" onClick={() => void run()}>
      {draining ? "Resume" : "Drain"}
    </Button>
  );
}

function Credentials() {
  const query = useQuery(credentialsQuery);
  const refresh = useRefresh();
  const [secret, setSecret] = useState<string | null>(null);
  return (
    <Section
      title="Credentials"
      about="A worker starts with the token of one: gristmill worker --server URL --token TOKEN."
    >
      <Loaded query={query}>
        {(rows) => (
          <EditableTable
            what="credential"
            rows={rows}
            fields={[{ name: "worker_name", label: "Name of the worker", type: "text", required: true }]}
            keyOf={(credential) => credential.id}
            nameOf={(credential) => `the credential of ${credential.worker_name}`}
            valuesOf={() => ({})}
            columns={[
              { label: "Worker", show: (credential) => credential.worker_name },
              { label: "Made by", show: (credential) => credential.created_by },
              { label: "Made", show: (credential) => dateTime(credential.created_at) },
              { label: "Used", show: (credential) => (credential.used_at === null ? "never" : <Ago time={credential.used_at} />) },
              { label: "", show: (credential) => (credential.revoked_at === null ? "" : "revoked") },
            ]}
            onCreate={async (values) => {
              const body = { worker_name: String(values.worker_name) };
              const made = await refresh(answer(api.POST("/api/v1/worker-credentials", { body })));
              setSecret(made.token);
            }}
            onDelete={(credential) =>
              refresh(
                answer(
                  api.DELETE("/api/v1/worker-credentials/{credential_id}", {
                    params: { path: { credential_id: credential.id } },
                  }),
                ),
              )
            }
          />
        )}
      </Loaded>
      <Modal opened={secret !== null} onClose={() => setSecret(null)} title="Token of the worker">
        {secret !== null && <Secret value={secret} onDone={() => setSecret(null)} />}
      </Modal>
    </Section>
  );
}
