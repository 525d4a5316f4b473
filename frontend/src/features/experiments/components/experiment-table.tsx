/** The list itself; on a phone each experiment is a card. */
import { Link } from "@tanstack/react-router";
import { StateBadge } from "@/components/ui/state-badge";
import { StateBar } from "@/components/ui/state-bar";
import { Ago, Elapsed } from "@/components/ui/times";
import type { ExperimentSummary } from "@/lib/api/types";
import classes from "./experiment-table.module.css";

export function ExperimentTable({ items }: { items: ExperimentSummary[] }) {
  return (
    <div className={`table-frame ${classes.frame ?? ""}`}>
      <table className={`table ${classes.table ?? ""}`}>
        <thead>
          <tr>
            <th>Experiment</th>
            <th>State</th>
            <th className={classes.progress}>Blocks</th>
            <th>Took</th>
            <th>Created</th>
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <Row key={item.id} item={item} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ item }: { item: ExperimentSummary }) {
  return (
    <tr>
      <td className={classes.name}>
        <Link to="/experiments/$id" params={{ id: item.id }} className={classes.link} title={item.name}>
          {item.name}
        </Link>
        <div className={`small soft ${classes.sub ?? ""}`}>
          {item.owner} · {item.toolchain}
        </div>
      </td>
      <td>
        <StateBadge state={item.state} />
      </td>
      <td className={classes.progress}>
        <StateBar counts={item.counts} />
      </td>
      <td className={classes.took}>
        <Elapsed start={item.started_at} end={item.finished_at} />
      </td>
      <td className={`soft ${classes.created ?? ""}`}>
        <Ago time={item.created_at} />
      </td>
    </tr>
  );
}
