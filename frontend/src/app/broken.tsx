/** What is shown when a page cannot be: an address that leads nowhere, or our own error. */
import { Button } from "@mantine/core";
import { Link, type ErrorComponentProps } from "@tanstack/react-router";
import { Empty, Problem } from "@/components/ui/states-of-a-page";

export function NotFound() {
  return (
    <div style={{ padding: 32 }}>
      <Empty title="There is nothing here" action={<Link to="/experiments">Go to the experiments</Link>}>
        The address may be mistyped, or what it led to was deleted.
      </Empty>
    </div>
  );
}

export function Broken({ error, reset }: ErrorComponentProps) {
  return (
    <div className="stack" style={{ padding: 32 }}>
      <Problem error={error} />
      <div className="row">
        <Button variant="default" onClick={reset}>
          Try again
        </Button>
        <Button variant="default" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </div>
    </div>
  );
}
