/** The uploaded files of a database. */
import { Button } from "@mantine/core";
import { IconUpload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { Section } from "@/components/ui/page";
import { Loaded, Problem } from "@/components/ui/states-of-a-page";
import type { Declared } from "@/lib/api/types";
import { bytes } from "@/lib/format/numbers";
import { filesQuery, useUploadFile } from "./api/database-files";

export function DatabaseFiles({ asset, mine }: { asset: Declared; mine: boolean }) {
  const query = useQuery(filesQuery(asset));
  const upload = useUploadFile(asset);
  const input = useRef<HTMLInputElement>(null);
  const send = async (files: FileList | null) => {
    for (const file of files ?? []) await upload.mutateAsync(file);
  };
  return (
    <Section
      title="Files"
      about="What the views read, under the database's root folder."
      actions={
        mine && (
          <>
            <input
              ref={input}
              type="file"
              multiple
              hidden
              onChange={(event) => {
                send(event.currentTarget.files).catch(() => undefined); // shown below
              }}
            />
            <Button
              variant="default"
              size="xs"
              leftSection={<IconUpload size={15} />}
              loading={upload.isPending}
              onClick={() => input.current?.click()}
            >
              Upload files
            </Button>
          </>
        )
      }
    >
      {upload.error !== null && <Problem error={upload.error} />}
      <Loaded query={query}>
        {(files) =>
          files.length === 0 ? (
            <p className="soft">No file was uploaded: the views make their data, or read a folder of the worker.</p>
          ) : (
            <div className="table-frame">
              <table className="table">
                <thead>
                  <tr>
                    <th>Path</th>
                    <th className="number">Size</th>
                    <th>SHA-256</th>
                  </tr>
                </thead>
                <tbody>
                  {files.map((file) => (
                    <tr key={file.path}>
                      <td>{file.path}</td>
                      <td className="number">{bytes(file.size)}</td>
                      <td className="mono soft">{file.sha256.slice(0, 16)}…</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Section>
  );
}
