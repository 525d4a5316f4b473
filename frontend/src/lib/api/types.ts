/** The API's own types (generated), by the names that the page uses. */
import type { ToolchainDeclaration } from "@/lib/graph/topology";
import type { components } from "./schema";

type Schemas = components["schemas"];

export type User = Schemas["UserView"];
export type Group = Schemas["GroupView"];
export type Member = Schemas["Member"];
export type Right = Schemas["RightView"];
export type Environment = Schemas["EnvironmentView"];
export type Queue = Schemas["QueueView"];
export type UsableQueue = Schemas["UsableQueue"];
export type OfferedEnvironment = Schemas["OfferedEnvironment"];
export type Worker = Schemas["WorkerView"];
export type SlotShare = Schemas["SlotShareView"];
export type WorkerCredential = Schemas["WorkerCredentialView"];
export type PersonalToken = Schemas["PersonalTokenView"];
export type Visibility = Schemas["Visibility"];
export type ExperimentSummary = Schemas["ExperimentSummary"];
export type BlockState = Schemas["BlockState"];
export type BlockDetail = Schemas["BlockDetail"];
export type BlockAttempt = Schemas["BlockAttempt"];
export type BlockFailure = Schemas["BlockFailure"];
export type BlockOutput = Schemas["BlockOutput"];
export type Explanation = Schemas["Explanation"];
export type Snapshot = Schemas["Snapshot"];
export type Result = Schemas["Result"];
export type Results = Schemas["Results"];
export type LogPage = Schemas["LogPage"];
export type LogPiece = Schemas["LogPiece"];
export type OutputPreview = Schemas["OutputPreview"];
export type Place = Schemas["Place"];
export type Validation = Schemas["Validation"];
export type Monitor = Schemas["Monitor"];
export type MonitoredWorker = Schemas["MonitoredWorker"];
export type SchedulerState = Schemas["SchedulerState"];
export type CacheView = Schemas["CacheView"];
export type Declared = Schemas["Declared"];
export type DeclaredSummary = Schemas["DeclaredSummary"];
export type DatabaseFile = Schemas["DatabaseFileView"];

export const ASSET_KINDS = [
  "toolchains",
  "algorithms",
  "libraries",
  "dataformats",
  "databases",
] as const;
export type AssetKind = (typeof ASSET_KINDS)[number];

// ---- what the API calls documents: BEAT's forms, as far as the page reads them ---------------

export interface ItemConfiguration {
  algorithm: string;
  inputs: Record<string, string>;
  outputs?: Record<string, string>;
  parameters?: Record<string, unknown>;
  queue?: string;
  environment?: { name: string; version: string };
  nb_slots?: number;
}

export interface DatasetConfiguration {
  database: string;
  protocol: string;
  set: string;
}

export interface ExperimentDeclaration {
  datasets: Record<string, DatasetConfiguration>;
  blocks: Record<string, ItemConfiguration>;
  analyzers: Record<string, ItemConfiguration>;
  globals: Record<string, unknown>;
  [more: string]: unknown;
}

export interface ParameterDeclaration {
  type: string;
  default?: unknown;
  description?: string;
  range?: [number, number];
  choice?: unknown[];
}

export interface AlgorithmDeclaration {
  groups: {
    name?: string;
    inputs?: Record<string, { type: string }>;
    outputs?: Record<string, { type: string }>;
  }[];
  parameters?: Record<string, ParameterDeclaration>;
  results?: Record<string, { type: string; display?: boolean; description?: string }>;
  splittable?: boolean;
  type?: string;
}

export interface DatabaseDeclaration {
  protocols?: {
    name: string;
    sets?: { name: string; outputs?: Record<string, string> }[];
    views?: Record<string, unknown>;
  }[];
}

export type Experiment = Omit<
  Schemas["Experiment"],
  "declaration" | "toolchain_declaration"
> & { declaration: ExperimentDeclaration; toolchain_declaration: ToolchainDeclaration };
