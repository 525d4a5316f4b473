/** Oneself: address, groups and rights, password, tokens for scripts. */
import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Page, Section } from "@/components/ui/page";
import { Loaded, Problem } from "@/components/ui/states-of-a-page";
import { say } from "@/components/ui/toasts";
import { usableQueuesQuery } from "@/lib/api/queries/get-usable-queues";
import { useMe } from "@/lib/api/session";
import type { User } from "@/lib/api/types";
import { useChangeEmail, useChangePassword } from "./api/change-account";
import { Tokens } from "./tokens";

export function AccountPage() {
  const me = useMe();
  if (me === null) return null;
  return (
    <Page
      title={me.username}
      about={`${me.admin ? "Administrator; in" : "In"} ${me.groups.map((group) => group.name).join(", ")}`}
    >
      <Rights />
      <Tokens />
      <Address key={me.revision} me={me} />
      <Password />
    </Page>
  );
}

function Rights() {
  const query = useQuery(usableQueuesQuery);
  return (
    <Section title="Queues that you may use" about="Each number is the largest that one of your groups gives.">
      <Loaded query={query}>
        {(queues) =>
          queues.length === 0 ? (
            <p className="soft">None yet: rights are given to groups by an administrator.</p>
          ) : (
            <div className="table-frame">
              <table className="table">
                <thead>
                  <tr>
                    <th>Queue</th>
                    <th className="number">Slots</th>
                    <th>From the group</th>
                    <th className="number">Priority</th>
                    <th>From the group</th>
                  </tr>
                </thead>
                <tbody>
                  {queues.map((queue) => (
                    <tr key={queue.id}>
                      <td>{queue.name}</td>
                      <td className="number">
                        {queue.slots} of {queue.total_slots}
                      </td>
                      <td>
                        {queue.slots_from}
                        {queue.reputation !== 100 && (
                          <span className="soft">
                            {" "}
                            ({queue.base_slots} × {queue.reputation} % reputation)
                          </span>
                        )}
                      </td>
                      <td className="number">{queue.priority}</td>
                      <td>{queue.priority_from}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Section>
  );
}

function Address({ me }: { me: User }) {
  const [email, setEmail] = useState(me.email);
  const change = useChangeEmail(me);
  return (
    <Section title="E-mail address">
      <form
        className="row wrap"
        style={{ alignItems: "flex-end" }}
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate(email, { onSuccess: () => say("The address is saved") });
        }}
      >
        <TextInput
          label="Address"
          type="email"
          w={320}
          maxLength={254}
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        <Button type="submit" variant="default" disabled={email === me.email} loading={change.isPending}>
          Save
        </Button>
      </form>
      {change.error !== null && <Problem error={change.error} />}
    </Section>
  );
}

function Password() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useChangePassword();
  return (
    <Section title="Password" about="A new password signs you out everywhere, here too.">
      <form
        className="stack"
        style={{ maxWidth: 320 }}
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ current_password: current, new_password: next });
        }}
      >
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          required
          value={current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          autoComplete="new-password"
          required
          value={next}
          onChange={(event) => setNext(event.currentTarget.value)}
        />
        {change.error !== null && <Problem error={change.error} />}
        <Button type="submit" variant="default" loading={change.isPending} style={{ alignSelf: "flex-start" }}>
          Change the password
        </Button>
      </form>
    </Section>
  );
}
