/** Environments that queues may offer; where one is installed only its workers know. */
import { useQuery } from "@tanstack/react-query";
import { EditableTable } from "@/components/ui/editable-table";
import { Loaded } from "@/components/ui/states-of-a-page";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { Environment } from "@/lib/api/types";
import { environmentsQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function EnvironmentsTab() {
  const query = useQuery(environmentsQuery);
  const refresh = useRefresh();
  const at = (environment: Environment) => ({
    params: {
      path: { environment_id: environment.id },
      header: ifMatch(environment.revision),
    },
  });
  return (
    <Loaded query={query}>
      {(rows) => (
        <EditableTable
          what="environment"
          rows={rows}
          keyOf={(environment) => environment.id}
          nameOf={(environment) => `${environment.name} ${environment.version}`}
          columns={[
            { label: "Name", show: (environment) => environment.name },
            { label: "Version", show: (environment) => environment.version },
            { label: "System", show: (environment) => environment.os || "–" },
            { label: "Workers that have it", number: true, show: (environment) => environment.workers },
          ]}
          fields={[
            { name: "name", label: "Name", type: "text", required: true, once: true },
            { name: "version", label: "Version", type: "text", required: true, once: true },
            { name: "os", label: "System", type: "text" },
            { name: "description", label: "What is installed", type: "long", hint: "Markdown" },
          ]}
          valuesOf={({ os, description }) => ({ os, description })}
          onCreate={(values) =>
            refresh(
              answer(
                api.POST("/api/v1/environments", {
                  body: {
                    name: String(values.name),
                    version: String(values.version),
                    os: String(values.os),
                    description: String(values.description),
                  },
                }),
              ),
            )
          }
          onChange={(environment, values) =>
            refresh(
              answer(
                api.PATCH("/api/v1/environments/{environment_id}", {
                  ...at(environment),
                  body: { os: String(values.os), description: String(values.description) },
                }),
              ),
            )
          }
          onDelete={(environment) =>
            refresh(answer(api.DELETE("/api/v1/environments/{environment_id}", at(environment))))
          }
        />
      )}
    </Loaded>
  );
}
