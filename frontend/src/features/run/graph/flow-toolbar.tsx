/** Fit, find, direction and layout of the drawing. */
import { ActionIcon, Select, Tooltip } from "@mantine/core";
import {
  IconArrowsMaximize,
  IconArrowRight,
  IconArrowDown,
  IconMinus,
  IconPlus,
  IconWand,
  type Icon,
} from "@tabler/icons-react";
import { useReactFlow } from "@xyflow/react";
import type { Direction } from "@/lib/graph/geometry";
import type { Topology } from "@/lib/graph/topology";
import { useRunView } from "./run-context";
import classes from "./dataflow.module.css";

interface FlowToolbarProps {
  topology: Topology;
  refined: boolean;
  onRefined: (refined: boolean) => void;
  onDirection: (direction: Direction) => void;
  onFind: (block: string) => void;
}

export function FlowToolbar({
  topology,
  refined,
  onRefined,
  onDirection,
  onFind,
}: FlowToolbarProps) {
  const flow = useReactFlow();
  const { direction, select } = useRunView();
  const turned = direction === "right" ? "down" : "right";
  return (
    <div className={classes.toolbar}>
      <Select
        className={classes.find}
        size="xs"
        aria-label="Find a block"
        placeholder="Find a block"
        searchable
        limit={40}
        data={topology.nodes.map((node) => node.name)}
        value={null}
        nothingFoundMessage="No block has this name"
        onChange={(name) => {
          if (name === null) return;
          select(name);
          onFind(name);
        }}
      />
      <Tool label="Zoom out (-)" icon={IconMinus} run={() => void flow.zoomOut()} />
      <Tool label="Zoom in (+)" icon={IconPlus} run={() => void flow.zoomIn()} />
      <Tool
        label="Fit all in view (f)"
        icon={IconArrowsMaximize}
        run={() => void flow.fitView({ padding: 0.08, duration: 200 })}
      />
      <Tool
        label={turned === "down" ? "Draw from top to bottom" : "Draw from left to right"}
        icon={turned === "down" ? IconArrowDown : IconArrowRight}
        run={() => onDirection(turned)}
      />
      <Tool
        label={refined ? "Back to the quick layout" : "Refine the layout (slower, fewer bends)"}
        icon={IconWand}
        pressed={refined}
        run={() => onRefined(!refined)}
      />
    </div>
  );
}

interface ToolProps {
  label: string;
  icon: Icon;
  run: () => void;
  pressed?: boolean;
}

function Tool({ label, icon: Shape, run, pressed }: ToolProps) {
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant={pressed === true ? "filled" : "subtle"}
        aria-label={label}
        aria-pressed={pressed}
        onClick={run}
      >
        <Shape size={16} />
      </ActionIcon>
    </Tooltip>
  );
}
