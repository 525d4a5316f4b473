/** How the experiment is set up: its rights, and its declaration as written. */
import { Link } from "@tanstack/react-router";
import { CodeEditor } from "@/components/ui/code-editor";
import { Section } from "@/components/ui/page";
import { exact } from "@/lib/format/times";
import type { Experiment } from "@/lib/api/types";

export function About({ experiment }: { experiment: Experiment }) {
  return (
    <div style={{ padding: "20px 24px", maxWidth: 900 }}>
      {experiment.description !== "" && (
        <Section title="Description">
          <p style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere", margin: 0 }}>
            {experiment.description}
          </p>
        </Section>
      )}
      <Section title="Facts">
        <dl className="facts">
          <dt>Owner</dt>
          <dd>{experiment.owner}</dd>
          <dt>Visibility</dt>
          <dd>{experiment.visibility}</dd>
          <dt>Created</dt>
          <dd>{exact(experiment.created_at)}</dd>
          {experiment.forked_from !== null && (
            <>
              <dt>Forked from</dt>
              <dd>
                <Link to="/experiments/$id" params={{ id: experiment.forked_from }}>
                  another experiment
                </Link>
              </dd>
            </>
          )}
        </dl>
      </Section>
      <Section
        title="Rights in force"
        about="What the scheduler holds for the owner on the queues of this experiment."
      >
        <div className="table-frame">
          <table className="table">
            <thead>
              <tr>
                <th>Queue</th>
                <th className="number">Slots</th>
                <th className="number">Priority</th>
              </tr>
            </thead>
            <tbody>
              {experiment.rights.map((right) => (
                <tr key={right.queue_id}>
                  <td>{right.queue}</td>
                  <td className="number">{right.slots}</td>
                  <td className="number">{right.priority}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Section>
      <Section title="Declaration">
        <CodeEditor
          label="Declaration of the experiment"
          language="json"
          height="420px"
          value={JSON.stringify(experiment.declaration, null, 2)}
        />
      </Section>
    </div>
  );
}
