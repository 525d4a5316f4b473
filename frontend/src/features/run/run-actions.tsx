/** Start, stop, fork, delete: what the state allows. */
import { ActionIcon, Button, Menu } from "@mantine/core";
import {
  IconDots,
  IconGitFork,
  IconPencil,
  IconPlayerPlayFilled,
  IconPlayerStopFilled,
  IconTrash,
} from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Confirm } from "@/components/ui/confirm";
import { complain, say } from "@/components/ui/toasts";
import type { Experiment } from "@/lib/api/types";
import type { ExperimentState } from "@/lib/state/states";
import { useExperimentActions } from "./api/change-experiment";

const STARTS: ReadonlySet<ExperimentState> = new Set(["draft", "done", "failed", "cancelled"]);
const STOPS: ReadonlySet<ExperimentState> = new Set(["pending", "running"]);

export function RunActions({ experiment, state }: { experiment: Experiment; state: ExperimentState }) {
  const { start, stop, fork, remove } = useExperimentActions(experiment.id);
  const [deleting, setDeleting] = useState(false);
  const navigate = useNavigate();
  const forkIt = () =>
    fork.mutate(undefined, {
      onSuccess: (copy) => {
        say(`Forked as ${copy.name}`);
        void navigate({ to: "/experiments/$id", params: { id: copy.id } });
      },
      onError: complain,
    });
  return (
    <>
      {experiment.mine && STARTS.has(state) && (
        <Button
          leftSection={<IconPlayerPlayFilled size={15} />}
          loading={start.isPending}
          onClick={() => start.mutate(undefined, { onError: complain })}
        >
          {state === "draft" ? "Start" : "Start again"}
        </Button>
      )}
      {experiment.mine && STOPS.has(state) && (
        <Button
          variant="default"
          leftSection={<IconPlayerStopFilled size={15} />}
          loading={stop.isPending}
          onClick={() => stop.mutate(undefined, { onError: complain })}
        >
          Stop
        </Button>
      )}
      <Button
        variant="default"
        leftSection={<IconGitFork size={16} />}
        loading={fork.isPending}
        onClick={forkIt}
      >
        Fork
      </Button>
      {experiment.mine && (
        <Menu>
          <Menu.Target>
            <ActionIcon variant="default" size={36} aria-label="More actions">
              <IconDots size={18} />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            {STARTS.has(state) && (
              <Menu.Item
                leftSection={<IconPencil size={16} />}
                renderRoot={(props) => (
                  <Link to="/experiments/new" search={{ edit: experiment.id }} {...props} />
                )}
              >
                Edit the set-up
              </Menu.Item>
            )}
            <Menu.Item
              color="red"
              leftSection={<IconTrash size={16} />}
              onClick={() => setDeleting(true)}
            >
              Delete…
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <Confirm
        opened={deleting}
        title="Delete this experiment?"
        action="Delete the experiment"
        onClose={() => setDeleting(false)}
        onConfirm={async () => {
          await remove.mutateAsync();
          say(`${experiment.name} is being deleted`);
          await navigate({ to: "/experiments" });
        }}
      >
        <p style={{ marginTop: 0, overflowWrap: "anywhere" }}>
          <b>{experiment.name}</b> goes with its events, logs and results
          {STOPS.has(state) && "; what runs of it is stopped first"}. Finished blocks stay in the
          cache.
        </p>
      </Confirm>
    </>
  );
}
