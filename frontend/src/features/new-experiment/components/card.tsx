/** The frame of one block in the form. */
import { IconBolt, IconChartBar, IconDatabase, IconSquare } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { TopologyNode } from "@/lib/graph/topology";
import classes from "./card.module.css";

const ICONS = { dataset: IconDatabase, block: IconSquare, analyzer: IconChartBar };

interface CardProps {
  node: TopologyNode;
  cached: boolean;
  wrong: boolean;
  children: ReactNode;
}

export function Card({ node, cached, wrong, children }: CardProps) {
  const Shape = ICONS[node.kind];
  return (
    <fieldset className={classes.card} data-wrong={wrong || undefined}>
      <legend className={classes.legend}>
        <Shape size={16} aria-hidden />
        <span className="fit">{node.name}</span>
        <span className="small soft">{node.kind}</span>
        {cached && (
          <span className={classes.cached}>
            <IconBolt size={13} aria-hidden /> from the cache
          </span>
        )}
      </legend>
      {children}
    </fieldset>
  );
}
