/** Log levels, changed for a while; they go back by themselves. */
import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Section } from "@/components/ui/page";
import { Loaded } from "@/components/ui/states-of-a-page";
import { complain, say } from "@/components/ui/toasts";
import { answer, api } from "@/lib/api/client";
import { exact } from "@/lib/format/times";
import { logLevelsQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"] as const;

export function ServerTab() {
  const query = useQuery(logLevelsQuery);
  return (
    <Section title="Log levels" about="What the server writes into its log. A change holds for a while, then the old level returns.">
      <div className="stack">
        <Change />
        <Loaded query={query}>
          {({ items }) => (
            <div className="table-frame">
              <table className="table">
                <thead>
                  <tr>
                    <th>Logger</th>
                    <th>Level</th>
                    <th>Until</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((item) => (
                    <tr key={item.logger}>
                      <td className="mono">{item.logger || "all"}</td>
                      <td>{item.level}</td>
                      <td>{item.until == null ? "–" : exact(item.until)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </div>
    </Section>
  );
}

function Change() {
  const refresh = useRefresh();
  const [logger, setLogger] = useState("gristmill");
  const [level, setLevel] = useState<(typeof LEVELS)[number]>("DEBUG");
  const [minutes, setMinutes] = useState(15);
  const set = () =>
    refresh(
      answer(
        api.PUT("/api/v1/admin/log-levels", { body: { logger, level, seconds: minutes * 60 } }),
      ),
    ).then(() => say(`${logger} logs at ${level} for ${minutes} minutes`), complain);
  return (
    <form
      className="row wrap"
      style={{ alignItems: "flex-end", gap: 14 }}
      onSubmit={(event) => {
        event.preventDefault();
        void set();
      }}
    >
      <TextInput label="Logger" value={logger} onChange={(event) => setLogger(event.currentTarget.value)} />
      <Select
        label="Level"
        data={[...LEVELS]}
        value={level}
        onChange={(next) => setLevel(LEVELS.find((each) => each === next) ?? "INFO")}
      />
      <NumberInput label="For" suffix=" minutes" min={1} max={1440} value={minutes} onChange={(next) => setMinutes(Number(next))} />
      <Button type="submit" variant="default">
        Set
      </Button>
    </form>
  );
}
