/** The configuration as the form holds it, and as BEAT's experiment form. Pure. */
import type {
  DatabaseDeclaration,
  DeclaredSummary,
  ExperimentDeclaration,
  ItemConfiguration,
  Place,
  UsableQueue,
} from "@/lib/api/types";
import type { Topology, TopologyNode } from "@/lib/graph/topology";
import {
  arrivingAt,
  candidatesFor,
  inOrder,
  inputsOf,
  joinPorts,
  outputsOf,
  type Algorithm,
  type PortMap,
} from "./candidates";

export interface ItemChoice {
  algorithm: string | null;
  inputs: PortMap;
  outputs: PortMap;
  /** only what differs from the algorithm's defaults */
  parameters: Record<string, unknown>;
  /** null: as for all */
  queue: string | null;
  environment: string | null;
  slots: number;
}

export interface DatasetChoice {
  database: string;
  protocol: string;
  set: string;
}

export interface Configuration {
  queue: string | null;
  /** name/version */
  environment: string | null;
  datasets: Record<string, DatasetChoice | null>;
  items: Record<string, ItemChoice>;
}

export interface DatasetOffer extends DatasetChoice {
  outputs: Record<string, string>;
}

/** Every set of every database that may be read. */
export function datasetOffers(databases: readonly DeclaredSummary[]): DatasetOffer[] {
  return databases.flatMap((database) => {
    const declaration = database.declaration as DatabaseDeclaration | null;
    return (declaration?.protocols ?? []).flatMap((protocol) =>
      (protocol.sets ?? []).map((set) => ({
        database: database.ref,
        protocol: protocol.name,
        set: set.name,
        outputs: set.outputs ?? {},
      })),
    );
  });
}

export function environmentKey(environment: { name: string; version: string }): string {
  return `${environment.name}/${environment.version}`;
}

function environmentOf(key: string): { name: string; version: string } {
  const slash = key.lastIndexOf("/");
  return { name: key.slice(0, slash), version: key.slice(slash + 1) };
}

export function fitsDataset(node: TopologyNode, offer: DatasetOffer): boolean {
  return node.outputs.every((output) => output in offer.outputs);
}

export const NO_CHOICE: ItemChoice = {
  algorithm: null,
  inputs: {},
  outputs: {},
  parameters: {},
  queue: null,
  environment: null,
  slots: 1,
};

/** An algorithm for a block, with its ports joined and everything else by default. */
export function chosenAlgorithm(node: TopologyNode, algorithm: Algorithm, before?: ItemChoice): ItemChoice {
  const { declaration } = algorithm;
  return {
    ...(before ?? NO_CHOICE),
    algorithm: algorithm.ref,
    inputs: joinPorts(Object.keys(inputsOf(declaration)), node.inputs),
    outputs: joinPorts(Object.keys(outputsOf(declaration)), node.outputs),
    parameters: {},
    slots: declaration.splittable === true ? (before?.slots ?? 1) : 1,
  };
}

/** The format of every output that is known so far, by `block.port`. */
export function producedFormats(
  topology: Topology,
  configuration: Configuration,
  algorithms: ReadonlyMap<string, Algorithm>,
  offers: readonly DatasetOffer[],
): Map<string, string> {
  const produced = new Map<string, string>();
  for (const node of topology.nodes) addProduced(produced, node, configuration, algorithms, offers);
  return produced;
}

function addProduced(
  produced: Map<string, string>,
  node: TopologyNode,
  configuration: Configuration,
  algorithms: ReadonlyMap<string, Algorithm>,
  offers: readonly DatasetOffer[],
): void {
  if (node.kind === "dataset") {
    const offer = offers.find((each) => sameSet(each, configuration.datasets[node.name] ?? null));
    for (const [port, format] of Object.entries(offer?.outputs ?? {})) {
      produced.set(`${node.name}.${port}`, format);
    }
    return;
  }
  const choice = configuration.items[node.name];
  const algorithm = algorithms.get(choice?.algorithm ?? "");
  if (choice === undefined || algorithm === undefined) return;
  for (const [port, format] of Object.entries(outputsOf(algorithm.declaration))) {
    const joined = choice.outputs[port];
    if (joined !== undefined) produced.set(`${node.name}.${joined}`, format);
  }
}

export function sameSet(a: DatasetChoice, b: DatasetChoice | null): boolean {
  return b !== null && a.database === b.database && a.protocol === b.protocol && a.set === b.set;
}

/** Defaults for all: the first queue, the first fitting set, the best fitting algorithm. */
export function defaultConfiguration(
  topology: Topology,
  algorithms: readonly Algorithm[],
  offers: readonly DatasetOffer[],
  queues: readonly UsableQueue[],
): Configuration {
  const queue = queues[0];
  const environment = queue?.environments.find((each) => each.id === queue.default_environment);
  const configuration: Configuration = {
    queue: queue?.name ?? null,
    environment: environment === undefined ? null : environmentKey(environment),
    datasets: {},
    items: {},
  };
  const byRef = new Map(algorithms.map((algorithm) => [algorithm.ref, algorithm]));
  const produced = new Map<string, string>();
  for (const node of inOrder(topology)) {
    if (node.kind === "dataset") {
      const offer = offers.find((each) => fitsDataset(node, each));
      configuration.datasets[node.name] = offer ?? null;
    } else {
      const arriving = arrivingAt(topology, node.name, produced);
      const best = candidatesFor(node, algorithms, arriving)[0];
      configuration.items[node.name] =
        best === undefined ? NO_CHOICE : chosenAlgorithm(node, best.algorithm);
    }
    addProduced(produced, node, configuration, byRef, offers);
  }
  return configuration;
}

/** What the form holds of an experiment that is there already. */
export function fromDeclaration(declaration: ExperimentDeclaration): Configuration {
  const { globals } = declaration;
  const environment = globals.environment as { name: string; version: string } | undefined;
  const items = { ...declaration.blocks, ...declaration.analyzers };
  return {
    queue: typeof globals.queue === "string" ? globals.queue : null,
    environment: environment === undefined ? null : environmentKey(environment),
    datasets: { ...declaration.datasets },
    items: Object.fromEntries(
      Object.entries(items).map(([name, item]) => [
        name,
        {
          algorithm: item.algorithm,
          inputs: item.inputs,
          outputs: item.outputs ?? {},
          parameters: item.parameters ?? {},
          queue: item.queue ?? null,
          environment: item.environment === undefined ? null : environmentKey(item.environment),
          slots: item.nb_slots ?? 1,
        },
      ]),
    ),
  };
}

export function toDeclaration(topology: Topology, configuration: Configuration): ExperimentDeclaration {
  const of = (kind: TopologyNode["kind"]) => topology.nodes.filter((node) => node.kind === kind);
  return {
    datasets: Object.fromEntries(
      of("dataset").flatMap(({ name }) => {
        const choice = configuration.datasets[name];
        if (choice == null) return [];
        const { database, protocol, set } = choice;
        return [[name, { database, protocol, set }]];
      }),
    ),
    blocks: Object.fromEntries(
      of("block").map(({ name }) => [name, itemOf(configuration.items[name] ?? NO_CHOICE, true)]),
    ),
    analyzers: Object.fromEntries(
      of("analyzer").map(({ name }) => [name, itemOf(configuration.items[name] ?? NO_CHOICE, false)]),
    ),
    globals: {
      ...(configuration.queue !== null ? { queue: configuration.queue } : {}),
      ...(configuration.environment !== null
        ? { environment: environmentOf(configuration.environment) }
        : {}),
    },
  };
}

function itemOf(choice: ItemChoice, withOutputs: boolean): ItemConfiguration {
  return {
    algorithm: choice.algorithm ?? "",
    inputs: choice.inputs,
    ...(withOutputs ? { outputs: choice.outputs } : {}),
    ...(Object.keys(choice.parameters).length > 0 ? { parameters: choice.parameters } : {}),
    ...(choice.queue !== null ? { queue: choice.queue } : {}),
    ...(choice.environment !== null ? { environment: environmentOf(choice.environment) } : {}),
    ...(choice.slots > 1 ? { nb_slots: choice.slots } : {}),
  };
}

/** The problems at or under a place of the declaration, for instance `/blocks/pca/queue`. */
export function problemsAt(problems: readonly Place[], place: string): Place[] {
  const pointer = `/declaration${place}`;
  return problems.filter(
    (problem) => problem.pointer === pointer || problem.pointer.startsWith(`${pointer}/`),
  );
}

/** A name as part of a JSON pointer. */
export function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
