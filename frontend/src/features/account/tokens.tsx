/** Personal tokens: made here, shown once, taken back here. */
import { Button, Checkbox, Modal, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Section } from "@/components/ui/page";
import { Secret } from "@/components/ui/secret";
import { Loaded, Problem } from "@/components/ui/states-of-a-page";
import { Ago } from "@/components/ui/times";
import { complain, say } from "@/components/ui/toasts";
import { useMe } from "@/lib/api/session";
import { dateTime } from "@/lib/format/times";
import { tokensQuery, useTokenChanges } from "./api/change-account";

const DAY_MS = 86_400_000;
const LIFETIMES = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "a year" },
  { value: "", label: "until taken back" },
];

export function Tokens() {
  const query = useQuery(tokensQuery);
  const { remove } = useTokenChanges();
  const [making, setMaking] = useState(false);
  return (
    <Section
      title="Personal tokens"
      about="For the gristmill command and for scripts, instead of your password."
      actions={
        <Button size="xs" variant="default" onClick={() => setMaking(true)}>
          New token
        </Button>
      }
    >
      <Loaded query={query}>
        {(tokens) =>
          tokens.length === 0 ? (
            <p className="soft">You have none.</p>
          ) : (
            <div className="table-frame">
              <table className="table">
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>May</th>
                    <th>Last used</th>
                    <th>Good until</th>
                    <th />
                  </tr>
                </thead>
                <tbody>
                  {tokens.map((token) => (
                    <tr key={token.id}>
                      <td style={{ overflowWrap: "anywhere" }}>{token.name}</td>
                      <td>{token.scopes.join(", ")}</td>
                      <td>{token.used_at === null ? "never" : <Ago time={token.used_at} />}</td>
                      <td>{token.expires_at === null ? "taken back" : dateTime(token.expires_at)}</td>
                      <td className="number">
                        <Button
                          size="compact-xs"
                          variant="subtle"
                          color="red"
                          onClick={() =>
                            remove.mutate(token.id, {
                              onSuccess: () => say(`${token.name} works no longer`),
                              onError: complain,
                            })
                          }
                        >
                          Take back
                        </Button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      <Modal opened={making} onClose={() => setMaking(false)} title="New personal token">
        {making && <NewToken onDone={() => setMaking(false)} />}
      </Modal>
    </Section>
  );
}

function NewToken({ onDone }: { onDone: () => void }) {
  const me = useMe();
  const { create } = useTokenChanges();
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [writes, setWrites] = useState(true);
  const [rules, setRules] = useState(false);
  const make = () =>
    create.mutate({
      name,
      scopes: ["read", ...(writes ? (["write"] as const) : []), ...(rules ? (["admin"] as const) : [])],
      expires_at: days === "" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString(),
    });
  if (create.data !== undefined) return <Secret value={create.data.token} onDone={onDone} />;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        make();
      }}
    >
      <TextInput
        label="Name"
        description="What it is for, so that you know it again"
        required
        maxLength={100}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select label="Good for" data={LIFETIMES} value={days} onChange={(value) => setDays(value ?? "90")} />
      <Checkbox
        label="May change things, not only read"
        checked={writes}
        onChange={(event) => setWrites(event.currentTarget.checked)}
      />
      {me?.admin === true && (
        <Checkbox
          label="May administer"
          checked={rules}
          onChange={(event) => setRules(event.currentTarget.checked)}
        />
      )}
      {create.error !== null && <Problem error={create.error} />}
      <Button type="submit" loading={create.isPending}>
        Make the token
      </Button>
    </form>
  );
}
