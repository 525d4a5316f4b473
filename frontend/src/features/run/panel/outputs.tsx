/** The first data units of what the block wrote. */
import { Button, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Loaded } from "@/components/ui/states-of-a-page";
import type { BlockDetail, BlockOutput } from "@/lib/api/types";
import { bytes, count, plural } from "@/lib/format/numbers";
import { PREVIEW_ROWS, previewQuery } from "../api/preview-output";
import classes from "./outputs.module.css";

export function Outputs({ experiment, detail }: { experiment: string; detail: BlockDetail }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const output = detail.outputs.find((each) => each.name === chosen) ?? detail.outputs[0];
  if (output === undefined) {
    const words =
      detail.kind === "analyzer"
        ? "An analyzer writes results, which are on the Results tab."
        : "Nothing is written until the block has finished.";
    return <p className={classes.none}>{words}</p>;
  }
  return (
    <div className={classes.outputs}>
      {detail.outputs.length > 1 && (
        <SegmentedControl
          size="xs"
          data={detail.outputs.map((each) => each.name)}
          value={output.name}
          onChange={setChosen}
        />
      )}
      <p className="soft small">
        {output.name} is {output.format}: {plural(output.rows, "data unit")}, {bytes(output.size)}
      </p>
      <Preview key={output.name} experiment={experiment} block={detail.name} output={output} />
    </div>
  );
}

interface PreviewProps {
  experiment: string;
  block: string;
  output: BlockOutput;
}

function Preview({ experiment, block, output }: PreviewProps) {
  const [offset, setOffset] = useState(0);
  const query = useQuery(previewQuery(experiment, block, output.name, offset));
  return (
    <>
      <Loaded query={query}>
        {(preview) => (
          <ol className={classes.items}>
            {preview.items.map((item) => (
              <li key={item.start}>
                <span className="small soft">
                  {item.start === item.end ? count(item.start) : `${item.start}–${item.end}`}
                </span>
                <pre tabIndex={0}>{JSON.stringify(item.value, null, 1)}</pre>
              </li>
            ))}
          </ol>
        )}
      </Loaded>
      {output.rows > PREVIEW_ROWS && (
        <div className="row">
          <Button
            size="xs"
            variant="default"
            disabled={offset === 0}
            onClick={() => setOffset(Math.max(0, offset - PREVIEW_ROWS))}
          >
            Before
          </Button>
          <Button
            size="xs"
            variant="default"
            disabled={offset + PREVIEW_ROWS >= output.rows}
            onClick={() => setOffset(offset + PREVIEW_ROWS)}
          >
            After
          </Button>
        </div>
      )}
    </>
  );
}
