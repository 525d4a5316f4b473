/** Which data a dataset of the toolchain stands for. */
import { Select } from "@mantine/core";
import type { Place } from "@/lib/api/types";
import type { TopologyNode } from "@/lib/graph/topology";
import { fitsDataset, type DatasetChoice, type DatasetOffer } from "../configuration";
import { Card } from "./card";

interface DatasetCardProps {
  node: TopologyNode;
  offers: DatasetOffer[];
  choice: DatasetChoice | null;
  problems: Place[];
  cached: boolean;
  onChange: (choice: DatasetChoice) => void;
}

const keyOf = ({ database, protocol, set }: DatasetChoice) => `${database} · ${protocol} · ${set}`;

export function DatasetCard({ node, offers, choice, problems, cached, onChange }: DatasetCardProps) {
  const fitting = offers.filter((offer) => fitsDataset(node, offer));
  return (
    <Card node={node} cached={cached} wrong={problems.length > 0}>
      <div className="form-grid">
        <Select
          label="Database, protocol, set"
          searchable
          limit={100}
          data={fitting.map(keyOf)}
          value={choice === null ? null : keyOf(choice)}
          placeholder={fitting.length === 0 ? "No database offers these outputs" : "Choose"}
          error={problems[0]?.message}
          onChange={(key) => {
            const offer = fitting.find((each) => keyOf(each) === key);
            if (offer !== undefined) onChange(offer);
          }}
        />
      </div>
    </Card>
  );
}
