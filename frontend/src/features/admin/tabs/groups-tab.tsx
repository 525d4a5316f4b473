/** Groups and who is in them. */
import { Button, Modal, MultiSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditableTable } from "@/components/ui/editable-table";
import { Loaded } from "@/components/ui/states-of-a-page";
import { complain } from "@/components/ui/toasts";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { Group, User } from "@/lib/api/types";
import { groupsQuery, usersQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

export function GroupsTab() {
  const query = useQuery(groupsQuery);
  const refresh = useRefresh();
  const [open, setOpen] = useState<Group | null>(null);
  const at = (group: Group) => ({
    params: { path: { group_id: group.id }, header: ifMatch(group.revision) },
  });
  return (
    <Loaded query={query}>
      {(rows) => (
        <>
          <EditableTable
            what="group"
            rows={rows}
            keyOf={(group) => group.id}
            nameOf={(group) => group.name}
            columns={[
              { label: "Name", show: (group) => group.name },
              { label: "Description", show: (group) => group.description || "–" },
              { label: "Members", number: true, show: (group) => group.members },
            ]}
            fields={[
              { name: "name", label: "Name", type: "text", required: true },
              { name: "description", label: "Description", type: "long" },
            ]}
            valuesOf={({ name, description }) => ({ name, description })}
            onCreate={(values) => {
              const body = { name: String(values.name), description: String(values.description) };
              return refresh(answer(api.POST("/api/v1/groups", { body })));
            }}
            onChange={(group, values) => {
              const body = { name: String(values.name), description: String(values.description) };
              return refresh(answer(api.PATCH("/api/v1/groups/{group_id}", { ...at(group), body })));
            }}
            onDelete={(group) => refresh(answer(api.DELETE("/api/v1/groups/{group_id}", at(group))))}
            more={(group) => (
              <Button size="compact-xs" variant="default" onClick={() => setOpen(group)}>
                Members
              </Button>
            )}
          />
          <Modal opened={open !== null} onClose={() => setOpen(null)} title={`Members of ${open?.name ?? ""}`}>
            {open !== null && <Members group={open} />}
          </Modal>
        </>
      )}
    </Loaded>
  );
}

function Members({ group }: { group: Group }) {
  const users = useQuery(usersQuery);
  return <Loaded query={users}>{(all) => <MemberChoice group={group} users={all} />}</Loaded>;
}

function MemberChoice({ group, users }: { group: Group; users: User[] }) {
  const refresh = useRefresh();
  const members = users
    .filter((user) => user.groups.some((each) => each.id === group.id))
    .map((user) => user.id);
  const change = async (next: string[]) => {
    const at = (user_id: string) => ({ params: { path: { group_id: group.id, user_id } } });
    const added = next.filter((id) => !members.includes(id));
    const gone = members.filter((id) => !next.includes(id));
    await refresh(
      Promise.all([
        ...added.map((id) => answer(api.PUT("/api/v1/groups/{group_id}/members/{user_id}", at(id)))),
        ...gone.map((id) => answer(api.DELETE("/api/v1/groups/{group_id}/members/{user_id}", at(id)))),
      ]),
    );
  };
  return (
    <MultiSelect
      label="Users"
      searchable
      data={users.map((user) => ({ value: user.id, label: user.username }))}
      value={members}
      onChange={(next) => {
        change(next).catch(complain);
      }}
    />
  );
}
