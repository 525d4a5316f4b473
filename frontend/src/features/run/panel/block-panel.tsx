/** Everything about one block, beside the drawing. */
import { CloseButton, Select, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Problem } from "@/components/ui/states-of-a-page";
import { StateBadge } from "@/components/ui/state-badge";
import { Elapsed } from "@/components/ui/times";
import type { BlockAttempt, BlockDetail, BlockFailure, Explanation } from "@/lib/api/types";
import type { LiveBlock } from "@/lib/live/run-store";
import { blockQuery } from "../api/get-block";
import { useBlock, useRunView } from "../graph/run-context";
import { Details } from "./details";
import { LogView } from "./log-view";
import { Outputs } from "./outputs";
import { useLog } from "./use-log";
import classes from "./block-panel.module.css";

export function BlockPanel({ experiment, name }: { experiment: string; name: string }) {
  const block = useBlock(name);
  const { select } = useRunView();
  const state = block?.state ?? "blocked";
  const query = useQuery(blockQuery(experiment, name, state));
  const detail = query.data?.name === name ? query.data : undefined;
  const heading = useRef<HTMLHeadingElement>(null);
  const [tab, setTab] = useState<string | null>("log");
  useEffect(() => {
    if (matchMedia("(max-width: 720px)").matches) heading.current?.focus();
  }, []);
  return (
    <aside className={classes.panel} aria-label={`Block ${name}`}>
      <header className={classes.head}>
        <div className="grow">
          <h2 ref={heading} tabIndex={-1} className="fit" title={name}>
            {name}
          </h2>
          <AlgorithmLink block={block} />
        </div>
        <StateBadge state={state} />
        <CloseButton aria-label="Close the block's panel" onClick={() => select(undefined)} />
      </header>
      {query.error !== null && <Problem error={query.error} retry={() => void query.refetch()} />}
      {block?.failure != null && <Failure failure={block.failure} detail={detail} />}
      {(state === "queued" || state === "blocked" || state === "lost") && (
        <Waiting explanation={detail?.explanation ?? null} reason={block?.reason ?? null} />
      )}
      <Facts block={block} />
      <Tabs value={tab} onChange={setTab} className={classes.tabs} keepMounted={false}>
        <Tabs.List>
          <Tabs.Tab value="log">Log</Tabs.Tab>
          <Tabs.Tab value="details">Details</Tabs.Tab>
          <Tabs.Tab value="outputs">Output</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="log" className={classes.content}>
          <LogTab experiment={experiment} name={name} block={block} attempts={detail?.attempts ?? []} />
        </Tabs.Panel>
        <Tabs.Panel value="details" className={classes.content}>
          {detail !== undefined && <Details detail={detail} />}
        </Tabs.Panel>
        <Tabs.Panel value="outputs" className={classes.content}>
          {detail !== undefined && <Outputs experiment={experiment} detail={detail} />}
        </Tabs.Panel>
      </Tabs>
    </aside>
  );
}

function AlgorithmLink({ block }: { block: LiveBlock | undefined }) {
  if (block === undefined) return null;
  const kind = block.kind === "dataset" ? "databases" : "algorithms";
  const ref = block.kind === "dataset" ? block.algorithm.split("/").slice(0, 2).join("/") : block.algorithm;
  return (
    <Link to="/library/$kind/view/$" params={{ kind, _splat: ref }} className="small soft">
      {block.algorithm}
    </Link>
  );
}

function Facts({ block }: { block: LiveBlock | undefined }) {
  if (block === undefined) return null;
  return (
    <dl className={classes.facts}>
      <div>
        <dt>Took</dt>
        <dd>
          <Elapsed start={block.started_at} end={block.finished_at} />
        </dd>
      </div>
      <div>
        <dt>Queue</dt>
        <dd>
          {block.queue}
          {block.slots > 1 && ` × ${block.slots}`}
        </dd>
      </div>
      <div>
        <dt>Worker</dt>
        <dd>{block.worker ?? "–"}</dd>
      </div>
      {(block.attempt ?? 0) > 1 && (
        <div>
          <dt>Attempt</dt>
          <dd>{block.attempt}</dd>
        </div>
      )}
    </dl>
  );
}

function Failure({ failure, detail }: { failure: Omit<BlockFailure, "kind"> & { kind: string }; detail: BlockDetail | undefined }) {
  const trace = failure.trace ?? detail?.failure?.trace;
  return (
    <div className={classes.failure} role="alert">
      <b>{failure.kind.replaceAll("_", " ")}</b>
      <p>{failure.message}</p>
      {trace != null && trace !== "" && (
        <details open>
          <summary>Trace</summary>
          <pre tabIndex={0}>{trace}</pre>
        </details>
      )}
    </div>
  );
}

function Waiting({ explanation, reason }: { explanation: Explanation | null; reason: string | null }) {
  const text = explanation?.message ?? reason;
  if (text === null) return null;
  return (
    <div className={classes.waiting}>
      <b>Why it waits</b>
      <p>{text}</p>
      {explanation?.would_start != null && <p>{explanation.would_start}</p>}
    </div>
  );
}

interface LogTabProps {
  experiment: string;
  name: string;
  block: LiveBlock | undefined;
  attempts: BlockAttempt[];
}

function LogTab({ experiment, name, block, attempts }: LogTabProps) {
  const [attempt, setAttempt] = useState<string | null>(null);
  const tried = block?.state === "blocked" || block?.state === "queued" ? "waits" : "tried";
  const log = useLog(experiment, name, attempt ?? undefined, `${block?.attempt ?? 0} ${tried}`);
  return (
    <>
      {attempts.length > 1 && (
        <Select
          size="xs"
          className={classes.attempts}
          aria-label="Attempt whose log is shown"
          placeholder="Newest attempt"
          clearable
          value={attempt}
          onChange={setAttempt}
          data={attempts.map((each) => ({ value: each.id, label: attemptLabel(each) }))}
        />
      )}
      <LogView log={log} name={name} />
    </>
  );
}

function attemptLabel(attempt: BlockAttempt): string {
  const outcome = attempt.outcome ?? (attempt.ended_at === null ? "running" : "lost");
  return `Part ${attempt.index + 1}, attempt ${attempt.number} on ${attempt.worker}: ${outcome}`;
}
