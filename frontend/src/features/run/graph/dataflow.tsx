/** The drawing of a run. It is laid out once; what changes afterwards is colour, icon and word. */
import {
  Background,
  BackgroundVariant,
  MiniMap,
  Panel,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  type MiniMapNodeProps,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { Loading, Problem } from "@/components/ui/states-of-a-page";
import type { Direction, Placed } from "@/lib/graph/geometry";
import type { Topology } from "@/lib/graph/topology";
import { BlockNode } from "./block-node";
import { ChannelEdge } from "./channel-edge";
import { flowElements } from "./flow-elements";
import { FlowToolbar } from "./flow-toolbar";
import { neighbourInDirection } from "./keyboard";
import { useBlock, useRunView } from "./run-context";
import { useLayout } from "./use-layout";
import classes from "./dataflow.module.css";

const NODE_TYPES = { block: BlockNode };
const EDGE_TYPES = { channel: ChannelEdge };
/** above this only what is in view is drawn */
const MANY = 150;

interface DataflowProps {
  topology: Topology;
  onDirection: (direction: Direction) => void;
}

export function Dataflow(props: DataflowProps) {
  return (
    <ReactFlowProvider>
      <Flow {...props} />
    </ReactFlowProvider>
  );
}

function Flow({ topology, onDirection }: DataflowProps) {
  const { direction } = useRunView();
  const [refined, setRefined] = useState(false);
  const { placed, error } = useLayout(topology, direction, refined);
  if (error !== null) return <Problem error={error} />;
  if (placed === null) return <Loading label="Laying out…" />;
  return (
    <Drawing
      key={`${direction}${refined ? " refined" : ""}`}
      topology={topology}
      placed={placed}
      toolbar={{ refined, onRefined: setRefined, onDirection }}
    />
  );
}

interface DrawingProps {
  topology: Topology;
  placed: Placed;
  toolbar: {
    refined: boolean;
    onRefined: (refined: boolean) => void;
    onDirection: (direction: Direction) => void;
  };
}

function Drawing({ topology, placed, toolbar }: DrawingProps) {
  const { direction, selected, select } = useRunView();
  const flow = useReactFlow();
  const frame = useRef<HTMLDivElement>(null);
  const { nodes, edges } = useMemo(
    () => flowElements(topology, placed, direction),
    [topology, placed, direction],
  );
  const first = useRef(selected);
  useEffect(() => {
    // A link to a block opens with that block in view.
    if (first.current === undefined) return;
    void flow.fitView({ nodes: [{ id: first.current }], maxZoom: 1, minZoom: 0.7 });
    first.current = undefined;
  }, [flow]);

  useEffect(() => {
    // The panel has taken a part of the window: the chosen block must not be under it.
    if (selected === undefined) return;
    const timer = setTimeout(() => {
      const box = placed.nodes[selected];
      const node = nodes.find((each) => each.id === selected);
      if (box === undefined || node === undefined || frame.current === null) return;
      const { x, y, zoom } = flow.getViewport();
      const [left, top] = [box.x * zoom + x, box.y * zoom + y];
      const [width, height] = [(node.width ?? 0) * zoom, (node.height ?? 0) * zoom];
      const { clientWidth, clientHeight } = frame.current;
      const inView =
        left >= 0 && top >= 0 && left + width <= clientWidth && top + height <= clientHeight;
      if (inView) return;
      void flow.setCenter(box.x + width / zoom / 2, box.y + height / zoom / 2, {
        zoom,
        duration: 200,
      });
    }, 60);
    return () => clearTimeout(timer);
  }, [selected, placed, nodes, flow]);

  const goTo = (name: string) => {
    void flow.fitView({ nodes: [{ id: name }], maxZoom: 1, minZoom: 0.6, duration: 200 });
    window.setTimeout(() => focusBlock(frame.current, name), 260);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey) return;
    const from = event.target instanceof HTMLElement ? event.target.dataset.block : undefined;
    if (event.key === "f") void flow.fitView({ duration: 200, padding: 0.08 });
    else if (event.key === "+" || event.key === "=") void flow.zoomIn({ duration: 120 });
    else if (event.key === "-") void flow.zoomOut({ duration: 120 });
    else if (event.key === "0") void flow.zoomTo(1, { duration: 120 });
    else if (event.key === "Escape") select(undefined);
    else if (event.key.startsWith("Arrow") && from !== undefined) {
      const next = neighbourInDirection(nodes, from, event.key);
      if (next === undefined) return;
      event.preventDefault();
      if (!focusBlock(frame.current, next)) goTo(next);
    } else return;
    event.stopPropagation();
  };

  return (
    <div className={classes.frame} ref={frame} onKeyDown={onKeyDown}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        fitView={selected === undefined}
        fitViewOptions={{ padding: 0.08, maxZoom: 1 }}
        minZoom={0.05}
        maxZoom={2}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        onlyRenderVisibleElements={topology.nodes.length > MANY}
        zoomOnDoubleClick={false}
        onPaneClick={() => select(undefined)}
        proOptions={{ hideAttribution: true }}
        aria-label="Dataflow"
      >
        <Background variant={BackgroundVariant.Dots} gap={22} size={1.2} color="var(--line-strong)" />
        <Panel position="top-right">
          <FlowToolbar topology={topology} onFind={goTo} {...toolbar} />
        </Panel>
        {topology.nodes.length > 6 && (
          <MiniMap
            className={classes.map}
            nodeComponent={MapNode}
            pannable
            zoomable
            ariaLabel="Overview"
            maskColor="color-mix(in srgb, var(--sunken) 65%, transparent)"
            bgColor="var(--surface)"
          />
        )}
      </ReactFlow>
    </div>
  );
}

function focusBlock(frame: HTMLElement | null, name: string): boolean {
  const button = frame?.querySelector<HTMLElement>(`[data-block="${CSS.escape(name)}"]`);
  button?.focus({ preventScroll: true });
  return button != null;
}

function MapNode({ id, x, y, width, height }: MiniMapNodeProps) {
  const block = useBlock(id);
  return (
    <rect
      x={x}
      y={y}
      width={width}
      height={height}
      rx={8}
      data-state={block?.state ?? "blocked"}
      className={classes.mapNode}
    />
  );
}

