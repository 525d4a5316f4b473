/** What groups may hold of queues. */
import { useQuery } from "@tanstack/react-query";
import { EditableTable } from "@/components/ui/editable-table";
import { Section } from "@/components/ui/page";
import { Loaded } from "@/components/ui/states-of-a-page";
import { answer, api } from "@/lib/api/client";
import { groupsQuery, queuesQuery, rightsQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function RightsTab() {
  const rights = useQuery(rightsQuery);
  const groups = useQuery(groupsQuery);
  const queues = useQuery(queuesQuery);
  const refresh = useRefresh();
  const set = (group_id: string, queue_id: string, slots: number, priority: number) =>
    refresh(
      answer(
        api.PUT("/api/v1/rights/{group_id}/{queue_id}", {
          params: { path: { group_id, queue_id } },
          body: { slots, priority },
        }),
      ),
    );
  return (
    <Section
      title="Rights of groups"
      about="A user has the largest number of slots and, separately, the largest priority that their groups give."
    >
      <Loaded query={rights}>
        {(rows) => (
          <EditableTable
            what="right"
            rows={rows}
            keyOf={(right) => `${right.group_id} ${right.queue_id}`}
            nameOf={(right) => `the right of ${right.group} on ${right.queue}`}
            columns={[
              { label: "Group", show: (right) => right.group },
              { label: "Queue", show: (right) => right.queue },
              { label: "Slots", number: true, show: (right) => right.slots },
              { label: "Priority", number: true, show: (right) => right.priority },
            ]}
            fields={[
              { name: "group", label: "Group", type: "choice", once: true, required: true, options: groups.data?.map((each) => ({ value: each.id, label: each.name })) ?? [] },
              { name: "queue", label: "Queue", type: "choice", once: true, required: true, options: queues.data?.map((each) => ({ value: each.id, label: each.name })) ?? [] },
              { name: "slots", label: "Slots", type: "number", required: true, start: 1 },
              { name: "priority", label: "Priority", type: "number", required: true, start: 0 },
            ]}
            valuesOf={({ slots, priority }) => ({ slots, priority })}
            onCreate={(values) =>
              set(String(values.group), String(values.queue), Number(values.slots), Number(values.priority))
            }
            onChange={(right, values) =>
              set(right.group_id, right.queue_id, Number(values.slots), Number(values.priority))
            }
            onDelete={({ group_id, queue_id }) =>
              refresh(
                answer(
                  api.DELETE("/api/v1/rights/{group_id}/{queue_id}", {
                    params: { path: { group_id, queue_id } },
                  }),
                ),
              )
            }
          />
        )}
      </Loaded>
    </Section>
  );
}
