/** What runs a block, and where: algorithm, parameters, queue, environment, slots, ports. */
import { NumberInput, Select } from "@mantine/core";
import type { Place, UsableQueue } from "@/lib/api/types";
import type { Topology, TopologyNode } from "@/lib/graph/topology";
import { arrivingAt, candidatesFor, type Algorithm, type PortMap } from "../candidates";
import { environmentKey, escaped, problemsAt, type ItemChoice } from "../configuration";
import { Card } from "./card";
import { ParameterInput } from "./parameter-input";
import classes from "./card.module.css";

interface BlockCardProps {
  node: TopologyNode;
  topology: Topology;
  algorithms: Algorithm[];
  produced: ReadonlyMap<string, string>;
  queues: UsableQueue[];
  common: { queue: string | null; environment: string | null };
  choice: ItemChoice;
  /** where in the declaration this block is */
  place: string;
  problems: Place[];
  cached: boolean;
  onAlgorithm: (ref: string) => void;
  onChange: (choice: ItemChoice) => void;
}

const COMMON = "";

export function BlockCard(props: BlockCardProps) {
  const { node, choice, place, problems, cached, onAlgorithm, onChange } = props;
  const arriving = arrivingAt(props.topology, node.name, props.produced);
  const candidates = candidatesFor(node, props.algorithms, arriving);
  const algorithm = props.algorithms.find((each) => each.ref === choice.algorithm);
  const mine = problemsAt(problems, place);
  const at = (field: string) => problemsAt(problems, `${place}/${field}`)[0]?.message;
  const parameters = Object.entries(algorithm?.declaration.parameters ?? {});
  return (
    <Card node={node} cached={cached} wrong={mine.length > 0}>
      <div className="form-grid">
        <Select
          label="Algorithm"
          description={descriptionOf(algorithm)}
          inputWrapperOrder={["label", "input", "description", "error"]}
          searchable
          limit={100}
          data={grouped(candidates)}
          value={choice.algorithm}
          placeholder={candidates.length === 0 ? "No algorithm has these ports" : "Choose"}
          error={at("algorithm") ?? at("inputs") ?? at("outputs")}
          onChange={(ref) => {
            if (ref !== null) onAlgorithm(ref);
          }}
        />
        <Place {...props} at={at} splittable={algorithm?.declaration.splittable === true} />
        {parameters.map(([name, declaration]) => (
          <ParameterInput
            key={`${choice.algorithm ?? ""} ${name}`}
            name={name}
            declaration={declaration}
            value={choice.parameters[name]}
            error={at(`parameters/${escaped(name)}`)}
            onChange={(value) => {
              const parameters = { ...choice.parameters, [name]: value };
              if (value === undefined) Reflect.deleteProperty(parameters, name);
              onChange({ ...choice, parameters });
            }}
          />
        ))}
      </div>
      {Object.keys(choice.inputs).length + Object.keys(choice.outputs).length > 2 && (
        <details className={classes.more}>
          <summary className="small">Ports</summary>
          <div className="form-grid">
            <Ports
              label="input"
              map={choice.inputs}
              ports={node.inputs}
              onChange={(inputs) => onChange({ ...choice, inputs })}
            />
            <Ports
              label="output"
              map={choice.outputs}
              ports={node.outputs}
              onChange={(outputs) => onChange({ ...choice, outputs })}
            />
          </div>
        </details>
      )}
    </Card>
  );
}

function descriptionOf(algorithm: Algorithm | undefined): string | undefined {
  const found = algorithm?.declaration as { description?: unknown } | undefined;
  return typeof found?.description === "string" ? found.description : undefined;
}

function grouped(candidates: ReturnType<typeof candidatesFor>) {
  const refs = (fit: boolean) =>
    candidates.filter((each) => each.typesFit === fit).map((each) => each.algorithm.ref);
  return [
    { group: "Fits", items: refs(true) },
    { group: "Same ports, but other data formats", items: refs(false) },
  ].filter((group) => group.items.length > 0);
}

interface WhereProps extends BlockCardProps {
  at: (field: string) => string | undefined;
  splittable: boolean;
}

function Place({ queues, common, choice, onChange, at, splittable }: WhereProps) {
  const queueName = choice.queue ?? common.queue;
  const queue = queues.find((each) => each.name === queueName);
  const environments = queue?.environments.map(environmentKey) ?? [];
  return (
    <>
      <Select
        label="Queue"
        data={[
          { value: COMMON, label: `As for all (${common.queue ?? "none"})` },
          ...queues.map((each) => ({
            value: each.name,
            label: `${each.name} (up to ${each.slots})`,
          })),
        ]}
        value={choice.queue ?? COMMON}
        error={at("queue")}
        onChange={(next) =>
          onChange({ ...choice, queue: next === null || next === COMMON ? null : next, environment: null })
        }
      />
      <Select
        label="Environment"
        data={[
          { value: COMMON, label: `As for all (${common.environment ?? "none"})` },
          ...environments.map((key) => ({ value: key, label: key })),
        ]}
        value={choice.environment ?? COMMON}
        error={at("environment")}
        onChange={(next) =>
          onChange({ ...choice, environment: next === null || next === COMMON ? null : next })
        }
      />
      {splittable && (
        <NumberInput
          label="Slots"
          description={queue === undefined ? undefined : `Your right on ${queue.name}: ${queue.slots}`}
          inputWrapperOrder={["label", "input", "description", "error"]}
          min={1}
          max={queue?.slots ?? 1}
          allowDecimal={false}
          value={choice.slots}
          error={at("nb_slots")}
          onChange={(value) => onChange({ ...choice, slots: Math.max(1, Number(value) || 1) })}
        />
      )}
    </>
  );
}

interface PortsProps {
  label: string;
  map: PortMap;
  ports: string[];
  onChange: (map: PortMap) => void;
}

/** Choosing a port that another one has swaps the two: the map stays one to one. */
function Ports({ label, map, ports, onChange }: PortsProps) {
  return Object.entries(map).map(([port, joined]) => (
    <Select
      key={port}
      label={`${label} ${port}`}
      data={ports}
      value={joined}
      onChange={(next) => {
        if (next === null) return;
        const other = Object.keys(map).find((each) => map[each] === next);
        onChange({ ...map, ...(other === undefined ? {} : { [other]: joined }), [port]: next });
      }}
    />
  ));
}
