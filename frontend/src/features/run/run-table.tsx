/** The run as a table: everything that the drawing shows, for readers, keyboards and phones. */
import { useStore } from "zustand";
import { Empty } from "@/components/ui/states-of-a-page";
import { StateBadge } from "@/components/ui/state-badge";
import { Elapsed } from "@/components/ui/times";
import { percent } from "@/lib/format/numbers";
import type { Topology } from "@/lib/graph/topology";
import { useBlock, useRunView } from "./graph/run-context";
import classes from "./run-table.module.css";

export function RunTable({ topology }: { topology: Topology }) {
  const { store, chosen } = useRunView();
  const nothing = useStore(
    store,
    (run) =>
      chosen.size > 0 && !Object.values(run.blocks).some((block) => chosen.has(block.state)),
  );
  if (nothing) return <Empty title="No block is in the chosen states" />;
  return (
    <div className={classes.frame}>
      <table className="table">
        <caption className="visually-hidden">Blocks of the experiment and their states</caption>
        <thead>
          <tr>
            <th scope="col">Block</th>
            <th scope="col">State</th>
            <th scope="col">Took</th>
            <th scope="col">Algorithm</th>
            <th scope="col">Queue</th>
            <th scope="col">Worker</th>
            <th scope="col">Reads from</th>
          </tr>
        </thead>
        <tbody>
          {topology.nodes.map((node) => (
            <Row key={node.name} name={node.name} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ name }: { name: string }) {
  const block = useBlock(name);
  const { chosen, selected, select } = useRunView();
  if (block === undefined || (chosen.size > 0 && !chosen.has(block.state))) return null;
  return (
    <tr data-selected={selected === name || undefined} className={classes.row}>
      <th scope="row" className={classes.name}>
        <button
          type="button"
          className={classes.open}
          title={name}
          onClick={() => select(selected === name ? undefined : name)}
        >
          {name}
        </button>
      </th>
      <td>
        <StateBadge state={block.state} />{" "}
        {block.state === "running" && block.progress !== null && <span className="small">{percent(block.progress)}</span>}
      </td>
      <td>
        <Elapsed start={block.started_at} end={block.finished_at} />
      </td>
      <td className={classes.long}>{block.algorithm}</td>
      <td className="nowrap">
        {block.queue}
        {block.slots > 1 && <span className="soft"> × {block.slots} slots</span>}
      </td>
      <td className="nowrap">{block.worker ?? <span className="soft">–</span>}</td>
      <td className={`soft ${classes.long ?? ""}`}>{block.inputs.join(", ") || "–"}</td>
    </tr>
  );
}
