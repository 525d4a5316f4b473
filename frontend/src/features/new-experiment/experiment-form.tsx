/** The form itself. The server checks it as one goes; what is wrong is shown where it is. */
import { Button, Select, Textarea, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { Section } from "@/components/ui/page";
import { Problem } from "@/components/ui/states-of-a-page";
import { ApiProblem } from "@/lib/api/client";
import type { Declared, Experiment, Place, UsableQueue, Validation } from "@/lib/api/types";
import { plural } from "@/lib/format/numbers";
import { topologyOf, type ToolchainDeclaration } from "@/lib/graph/topology";
import { useSaveExperiment } from "./api/save-experiment";
import { validationQuery } from "./api/validate-experiment";
import { inOrder, type Algorithm } from "./candidates";
import { BlockCard } from "./components/block-card";
import { DatasetCard } from "./components/dataset-card";
import { QueueFacts } from "./components/queue-facts";
import {
  chosenAlgorithm,
  defaultConfiguration,
  environmentKey,
  escaped,
  fromDeclaration,
  NO_CHOICE,
  problemsAt,
  producedFormats,
  toDeclaration,
  type Configuration,
  type DatasetOffer,
  type ItemChoice,
} from "./configuration";
import classes from "./experiment-form.module.css";

interface ExperimentFormProps {
  toolchain: Declared;
  algorithms: Algorithm[];
  offers: DatasetOffer[];
  queues: UsableQueue[];
  edited: Experiment | null;
}

export function ExperimentForm({ toolchain, algorithms, offers, queues, edited }: ExperimentFormProps) {
  const topology = useMemo(
    () => topologyOf((toolchain.declaration ?? {}) as ToolchainDeclaration),
    [toolchain.declaration],
  );
  const [configuration, setConfiguration] = useState<Configuration>(() =>
    edited === null
      ? defaultConfiguration(topology, algorithms, offers, queues)
      : fromDeclaration(edited.declaration),
  );
  const [name, setName] = useState(edited?.name ?? suggestedName(toolchain.name));
  const [description, setDescription] = useState(edited?.description ?? "");
  const [key] = useState(() => newKey());
  const declaration = useMemo(
    () => toDeclaration(topology, configuration),
    [topology, configuration],
  );
  const draft = { name, toolchain: toolchain.ref, declaration, description };
  const [checked] = useDebouncedValue(declaration, 400);
  const validation = useQuery(validationQuery({ ...draft, name: "", description: "", declaration: checked }));
  const save = useSaveExperiment();
  const navigate = useNavigate();

  const problems = problemsOf(validation.data, validation.error, save.error);
  const byRef = useMemo(() => new Map(algorithms.map((each) => [each.ref, each])), [algorithms]);
  const produced = producedFormats(topology, configuration, byRef, offers);
  const cached = new Set(validation.data?.blocks.filter((each) => each.cached).map((each) => each.name));
  const queue = queues.find((each) => each.name === configuration.queue);
  const setItem = (block: string, choice: ItemChoice) =>
    setConfiguration((before) => ({ ...before, items: { ...before.items, [block]: choice } }));
  const submit = (start: boolean) =>
    save.mutate(
      { draft, start, edited, key: `${key}-${name}` },
      { onSuccess: (id) => void navigate({ to: "/experiments/$id", params: { id } }) },
    );
  const nameError = problems.find((problem) => problem.pointer === "/name")?.message;

  return (
    <form
      className={classes.form}
      onSubmit={(event) => {
        event.preventDefault();
        submit(true);
      }}
    >
      <Section title="Experiment">
        <div className={classes.head}>
          <TextInput
            label="Name"
            required
            maxLength={200}
            value={name}
            error={nameError}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Textarea
            label="Description"
            autosize
            minRows={1}
            maxRows={6}
            value={description}
            onChange={(event) => setDescription(event.currentTarget.value)}
          />
        </div>
      </Section>
      <Section title="For all blocks" about="Each block uses these unless you choose otherwise below.">
        <div className="form-grid">
          <Select
            label="Queue"
            data={queues.map((each) => each.name)}
            value={configuration.queue}
            error={problemsAt(problems, "/globals/queue")[0]?.message}
            onChange={(next) => setConfiguration(withQueue(configuration, queues, next))}
          />
          <Select
            label="Environment"
            data={queue?.environments.map(environmentKey) ?? []}
            value={configuration.environment}
            error={problemsAt(problems, "/globals/environment")[0]?.message}
            onChange={(environment) => setConfiguration({ ...configuration, environment })}
          />
          {queue !== undefined && <QueueFacts queue={queue} />}
        </div>
      </Section>
      <Section title="Blocks">
        <div className="stack">
          {inOrder(topology).map((node) =>
            node.kind === "dataset" ? (
              <DatasetCard
                key={node.name}
                node={node}
                offers={offers}
                choice={configuration.datasets[node.name] ?? null}
                problems={problemsAt(problems, `/datasets/${escaped(node.name)}`)}
                cached={cached.has(node.name)}
                onChange={(choice) =>
                  setConfiguration((before) => ({
                    ...before,
                    datasets: { ...before.datasets, [node.name]: choice },
                  }))
                }
              />
            ) : (
              <BlockCard
                key={node.name}
                node={node}
                topology={topology}
                algorithms={algorithms}
                produced={produced}
                queues={queues}
                common={{ queue: configuration.queue, environment: configuration.environment }}
                choice={configuration.items[node.name] ?? NO_CHOICE}
                place={`/${node.kind === "block" ? "blocks" : "analyzers"}/${escaped(node.name)}`}
                problems={problems}
                cached={cached.has(node.name)}
                onAlgorithm={(ref) => {
                  const algorithm = byRef.get(ref);
                  if (algorithm === undefined) return;
                  setItem(node.name, chosenAlgorithm(node, algorithm, configuration.items[node.name]));
                }}
                onChange={(choice) => setItem(node.name, choice)}
              />
            ),
          )}
        </div>
      </Section>
      <div className={classes.foot}>
        <Verdict validation={validation.data} problems={problems} cached={cached.size} busy={validation.isFetching} />
        {save.error !== null && <Problem error={save.error} />}
        <div className="row">
          <Button
            variant="default"
            loading={save.isPending}
            onClick={() => submit(false)}
          >
            Save as a draft
          </Button>
          <Button type="submit" loading={save.isPending} disabled={validation.data?.ok === false}>
            Start
          </Button>
        </div>
      </div>
    </form>
  );
}

function problemsOf(validation: Validation | undefined, ...errors: unknown[]): Place[] {
  const refused = errors.flatMap((error) => (error instanceof ApiProblem ? error.places : []));
  return [...(validation?.problems ?? []), ...refused];
}

function withQueue(before: Configuration, queues: UsableQueue[], name: string | null): Configuration {
  const queue = queues.find((each) => each.name === name);
  const keys = queue?.environments.map(environmentKey) ?? [];
  if (before.environment !== null && keys.includes(before.environment)) return { ...before, queue: name };
  const preferred = queue?.environments.find((each) => each.id === queue.default_environment);
  return {
    ...before,
    queue: name,
    environment: preferred === undefined ? null : environmentKey(preferred),
  };
}

function suggestedName(toolchain: string): string {
  const now = new Date();
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  return `${toolchain}-${day}-${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
}

/** crypto.randomUUID wants https; an intranet may have none. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

interface VerdictProps {
  validation: Validation | undefined;
  problems: Place[];
  cached: number;
  busy: boolean;
}

function Verdict({ validation, problems, cached, busy }: VerdictProps) {
  if (validation === undefined) return <p className="soft" role="status">Checking…</p>;
  if (!validation.ok) {
    return (
      <div className={classes.bad} role="status">
        <IconAlertTriangle size={17} aria-hidden />
        <div>
          <b>{plural(validation.problems.length, "thing")} to put right</b>
          <ul>
            {problems.slice(0, 8).map((problem, index) => (
              <li key={index}>
                <code>{problem.pointer.replace("/declaration", "")}</code> {problem.message}
              </li>
            ))}
          </ul>
        </div>
      </div>
    );
  }
  const total = validation.blocks.length;
  return (
    <p className={classes.good} role="status" data-busy={busy || undefined}>
      <IconCheck size={17} aria-hidden />
      {cached === 0
        ? `Everything fits; ${plural(total, "block")} to run.`
        : `Everything fits; ${cached} of ${plural(total, "block")} come from the cache.`}
    </p>
  );
}
