import { expect, test } from "vitest";
import type { AlgorithmDeclaration, UsableQueue } from "@/lib/api/types";
import { topologyOf } from "@/lib/graph/topology";
import { candidatesFor, inOrder, joinPorts, type Algorithm } from "./candidates";
import {
  defaultConfiguration,
  fromDeclaration,
  problemsAt,
  toDeclaration,
  type DatasetOffer,
} from "./configuration";

const TOPOLOGY = topologyOf({
  analyzers: [{ name: "score", inputs: ["features"], synchronized_channel: "faces" }],
  blocks: [{ name: "pca", inputs: ["image"], outputs: ["features"], synchronized_channel: "faces" }],
  datasets: [{ name: "faces", outputs: ["image"] }],
  connections: [
    { from: "faces.image", to: "pca.image", channel: "faces" },
    { from: "pca.features", to: "score.features", channel: "faces" },
  ],
});

function algorithm(ref: string, declaration: AlgorithmDeclaration): Algorithm {
  const [owner = "", name = "", version = "1"] = ref.split("/");
  return { ref, owner, name, version: Number(version), declaration };
}

const port = (name: string, type: string) => ({ [name]: { type } });
const PCA = algorithm("me/pca/1", {
  groups: [{ inputs: port("image", "me/image/1"), outputs: port("features", "me/vector/1") }],
  splittable: true,
});
const OTHER = algorithm("me/other/1", {
  groups: [{ inputs: port("sound", "me/sound/1"), outputs: port("features", "me/vector/1") }],
});
const SCORE = algorithm("me/score/1", {
  groups: [{ inputs: port("vector", "me/vector/1") }],
  results: { accuracy: { type: "float32" } },
});
const OFFERS: DatasetOffer[] = [
  { database: "sounds/1", protocol: "all", set: "all", outputs: { sound: "me/sound/1" } },
  { database: "faces/1", protocol: "all", set: "train", outputs: { image: "me/image/1" } },
];
const QUEUES = [
  {
    name: "quick",
    default_environment: "e2",
    environments: [
      { id: "e1", name: "Old", version: "1", os: "" },
      { id: "e2", name: "Python", version: "3", os: "" },
    ],
  },
] as UsableQueue[];

test("by default everything is chosen that fits", () => {
  const made = defaultConfiguration(TOPOLOGY, [OTHER, SCORE, PCA], OFFERS, QUEUES);
  expect(made.queue).toBe("quick");
  expect(made.environment).toBe("Python/3");
  expect(made.datasets.faces).toMatchObject({ database: "faces/1", set: "train" });
  expect(made.items.pca?.algorithm).toBe("me/pca/1");
  expect(made.items.score).toMatchObject({
    algorithm: "me/score/1",
    inputs: { vector: "features" },
  });
});

test("the form and the declaration say the same", () => {
  const made = defaultConfiguration(TOPOLOGY, [SCORE, PCA], OFFERS, QUEUES);
  const pca = made.items.pca;
  if (pca === undefined) throw new Error("pca was not configured");
  made.items.pca = { ...pca, slots: 3, queue: "long", parameters: { n: 5 } };
  const declaration = toDeclaration(TOPOLOGY, made);
  expect(declaration.blocks.pca).toEqual({
    algorithm: "me/pca/1",
    inputs: { image: "image" },
    outputs: { features: "features" },
    parameters: { n: 5 },
    queue: "long",
    nb_slots: 3,
  });
  expect(toDeclaration(TOPOLOGY, fromDeclaration(declaration))).toEqual(declaration);
});

test("an algorithm whose formats do not fit comes after those that do, and says so", () => {
  const node = TOPOLOGY.nodes.find((each) => each.name === "pca");
  if (node === undefined) throw new Error("no pca");
  const found = candidatesFor(node, [OTHER, PCA, SCORE], { image: "me/image/1" });
  expect(found.map((each) => [each.algorithm.ref, each.typesFit])).toEqual([
    ["me/pca/1", true],
    ["me/other/1", false],
  ]);
});

test("ports of equal name join, the others in order", () => {
  expect(joinPorts(["x", "label", "y"], ["label", "first", "second"])).toEqual({
    x: "first",
    label: "label",
    y: "second",
  });
});

test("blocks come after what they read, whatever order the toolchain has", () => {
  expect(inOrder(TOPOLOGY).map((node) => node.name)).toEqual(["faces", "pca", "score"]);
});

test("problems are found at their place and below it", () => {
  const problem = (pointer: string) => ({ pointer, message: "", code: "" });
  const problems = [problem("/declaration/blocks/pca/queue"), problem("/declaration/blocks/pcaa/queue")];
  expect(problemsAt(problems, "/blocks/pca")).toHaveLength(1);
  expect(problemsAt(problems, "/blocks/pca/queue")).toHaveLength(1);
  expect(problemsAt(problems, "/blocks/pca/algorithm")).toHaveLength(0);
});
