/** The administrator's page: one tab for each thing to look after. */
import { Tabs } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { Page } from "@/components/ui/page";
import { Empty } from "@/components/ui/states-of-a-page";
import { useMe } from "@/lib/api/session";
import { CacheTab } from "./tabs/cache-tab";
import { EnvironmentsTab } from "./tabs/environments-tab";
import { GroupsTab } from "./tabs/groups-tab";
import { QueuesTab } from "./tabs/queues-tab";
import { RightsTab } from "./tabs/rights-tab";
import { SchedulerTab } from "./tabs/scheduler-tab";
import { ServerTab } from "./tabs/server-tab";
import { UsersTab } from "./tabs/users-tab";
import { WorkersTab } from "./tabs/workers-tab";

const TABS: { name: string; label: string; tab: ComponentType }[] = [
  { name: "scheduler", label: "Scheduler", tab: SchedulerTab },
  { name: "queues", label: "Queues", tab: QueuesTab },
  { name: "workers", label: "Workers", tab: WorkersTab },
  { name: "environments", label: "Environments", tab: EnvironmentsTab },
  { name: "users", label: "Users", tab: UsersTab },
  { name: "groups", label: "Groups", tab: GroupsTab },
  { name: "rights", label: "Rights", tab: RightsTab },
  { name: "cache", label: "Cache", tab: CacheTab },
  { name: "server", label: "Server", tab: ServerTab },
];

export function AdminPage() {
  const me = useMe();
  const { tab } = useSearch({ from: "/inside/admin" });
  const navigate = useNavigate({ from: "/admin" });
  if (me?.admin !== true) return <Empty title="Only administrators may see this page" />;
  return (
    <Page title="Administration" about="Every change takes effect at once, without a restart.">
      <Tabs
        value={TABS.find((each) => each.name === tab)?.name ?? "scheduler"}
        onChange={(next) => void navigate({ search: { tab: next ?? undefined }, replace: true })}
        keepMounted={false}
      >
        <Tabs.List mb={20}>
          {TABS.map(({ name, label }) => (
            <Tabs.Tab key={name} value={name}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {TABS.map(({ name, tab: Tab }) => (
          <Tabs.Panel key={name} value={name}>
            <Tab />
          </Tabs.Panel>
        ))}
      </Tabs>
    </Page>
  );
}
