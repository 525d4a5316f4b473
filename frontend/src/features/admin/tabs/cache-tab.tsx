/** How large the cache is, and cleaning it: first what would go, then the doing. */
import { Button, NumberInput, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Section } from "@/components/ui/page";
import { Loaded, Problem } from "@/components/ui/states-of-a-page";
import { Ago } from "@/components/ui/times";
import { say } from "@/components/ui/toasts";
import { answer, api } from "@/lib/api/client";
import type { CacheView } from "@/lib/api/types";
import { bytes, count, plural } from "@/lib/format/numbers";
import { cacheQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function CacheTab() {
  const query = useQuery(cacheQuery);
  return (
    <Loaded query={query}>
      {(cache) => (
        <>
          <Section title="Now">
            <Facts cache={cache} />
          </Section>
          <Clean />
          <Largest cache={cache} />
        </>
      )}
    </Loaded>
  );
}

function Facts({ cache }: { cache: CacheView }) {
  return (
    <dl className="facts">
      <dt>Finished blocks</dt>
      <dd>
        {count(cache.entries)}, {bytes(cache.bytes)}
      </dd>
      <dt>Needed by live experiments</dt>
      <dd>{bytes(cache.needed_bytes)}</dd>
      <dt>Times used again</dt>
      <dd>{count(cache.hits)}</dd>
      <dt>Longest unused</dt>
      <dd>{cache.oldest_use === null ? "–" : <Ago time={cache.oldest_use} />}</dd>
      <dt>Free on the disk</dt>
      <dd>{bytes(cache.free_bytes)}</dd>
    </dl>
  );
}

type How = "all" | "older" | "size";
const DAY = 86_400;
const GB = 1_000_000_000;

interface Rule {
  older_than_seconds: number | null;
  max_bytes: number | null;
}

function ruleOf(how: How, days: number, gigabytes: number): Rule {
  return {
    older_than_seconds: how === "older" ? Math.round(days * DAY) : null,
    max_bytes: how === "size" ? Math.round(gigabytes * GB) : how === "all" ? 0 : null,
  };
}

function Clean() {
  const refresh = useRefresh();
  const [how, setHow] = useState<How>("older");
  const [days, setDays] = useState(30);
  const [gigabytes, setGigabytes] = useState(10);
  const [tried, setTried] = useState<{ rule: Rule; entries: number; bytes: number } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const rule = ruleOf(how, days, gigabytes);
  const current = tried !== null && JSON.stringify(tried.rule) === JSON.stringify(rule) ? tried : null;
  const clean = async (dry_run: boolean) => {
    setError(null);
    try {
      const body = { ...rule, dry_run };
      const found = await refresh(answer(api.POST("/api/v1/admin/cache/clean", { body })));
      if (dry_run) setTried({ rule, entries: found.entries, bytes: found.bytes });
      else {
        setTried(null);
        say(`${plural(found.entries, "block")} cleaned, ${bytes(found.freed_bytes)} freed`);
      }
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Section title="Clean" about="What a live experiment needs is never cleaned.">
      <div className="row wrap" style={{ alignItems: "flex-end", gap: 14 }}>
        <SegmentedControl
          value={how}
          onChange={(next) => setHow(next)}
          data={[
            { value: "older", label: "Unused for long" },
            { value: "size", label: "Down to a size" },
            { value: "all", label: "Everything" },
          ]}
        />
        {how === "older" && (
          <NumberInput label="Unused for" suffix=" days" min={0} value={days} onChange={(next) => setDays(Number(next))} />
        )}
        {how === "size" && (
          <NumberInput label="Keep at most" suffix=" GB" min={0} value={gigabytes} onChange={(next) => setGigabytes(Number(next))} />
        )}
        <Button variant="default" onClick={() => void clean(true)}>
          See what would go
        </Button>
        <Button color="red" disabled={current === null || current.entries === 0} onClick={() => void clean(false)}>
          Clean
        </Button>
      </div>
      <p role="status">
        {current !== null &&
          `${plural(current.entries, "finished block")} would go, ${bytes(current.bytes)}. They would run again when needed.`}
      </p>
      {error !== null && <Problem error={error} />}
    </Section>
  );
}

function Largest({ cache }: { cache: CacheView }) {
  return (
    <Section title="Largest">
      <div className="table-frame">
        <table className="table">
          <thead>
            <tr>
              <th>Algorithm</th>
              <th>Environment</th>
              <th className="number">Size</th>
              <th className="number">Used again</th>
              <th>Last used</th>
            </tr>
          </thead>
          <tbody>
            {cache.largest.map((entry) => (
              <tr key={entry.key}>
                <td>{entry.algorithm}</td>
                <td>{entry.environment}</td>
                <td className="number">{bytes(entry.size)}</td>
                <td className="number">{entry.hits}</td>
                <td>
                  <Ago time={entry.used_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
