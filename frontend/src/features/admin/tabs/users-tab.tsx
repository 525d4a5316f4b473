/** Who may sign in. */
import { useQuery } from "@tanstack/react-query";
import { EditableTable, type Field, type Values } from "@/components/ui/editable-table";
import { Loaded } from "@/components/ui/states-of-a-page";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { User } from "@/lib/api/types";
import { usersQuery } from "../api/questions";
import { useRefresh } from "../api/use-refresh";

const FIELDS: Field[] = [
  { name: "username", label: "Username", type: "text", required: true, once: true },
  { name: "email", label: "E-mail address", type: "text" },
  { name: "password", label: "Password", type: "password", hint: "Empty: the one that there is stays" },
  { name: "reputation", label: "Reputation", type: "number", hint: "percent; 100 is neutral", start: 100, required: true },
  { name: "active", label: "May sign in", type: "yes-no", start: true },
  { name: "admin", label: "Is an administrator", type: "yes-no" },
];

function bodyOf(values: Values) {
  const password = String(values.password ?? "");
  return {
    email: String(values.email ?? ""),
    reputation: Number(values.reputation),
    active: values.active === true,
    admin: values.admin === true,
    ...(password === "" ? {} : { password }),
  };
}

export function UsersTab() {
  const query = useQuery(usersQuery);
  const refresh = useRefresh();
  const at = (user: User) => ({
    params: { path: { user_id: user.id }, header: ifMatch(user.revision) },
  });
  return (
    <Loaded query={query}>
      {(rows) => (
        <EditableTable
          what="user"
          rows={rows}
          fields={FIELDS}
          keyOf={(user) => user.id}
          nameOf={(user) => user.username}
          columns={[
            { label: "Username", show: (user) => user.username },
            { label: "E-mail", show: (user) => user.email || "–" },
            { label: "Groups", show: (user) => user.groups.map((group) => group.name).join(", ") },
            { label: "Reputation", number: true, show: (user) => `${user.reputation} %` },
            { label: "", show: (user) => [user.admin && "administrator", !user.active && "may not sign in"].filter(Boolean).join(", ") },
          ]}
          valuesOf={({ email, reputation, active, admin }) => ({ email, reputation, active, admin, password: "" })}
          onCreate={(values) => {
            const body = { password: "", ...bodyOf(values), username: String(values.username) };
            return refresh(answer(api.POST("/api/v1/users", { body })));
          }}
          onChange={(user, values) =>
            refresh(answer(api.PATCH("/api/v1/users/{user_id}", { ...at(user), body: bodyOf(values) })))
          }
          onDelete={(user) => refresh(answer(api.DELETE("/api/v1/users/{user_id}", at(user))))}
        />
      )}
    </Loaded>
  );
}
