/** A table of results; a confusion matrix is shaded, so that the eye finds what went wrong. */
import { asScalar, heatOf, type Table } from "./read-result";
import classes from "./results.module.css";

const MOST_ROWS = 500;

export function ResultTable({ name, table }: { name: string; table: Table }) {
  const most = heatOf(table);
  return (
    <div className={classes.tableFrame} tabIndex={0} role="region" aria-label={name}>
      <table className={classes.table} data-heat={most !== null || undefined}>
        <thead>
          <tr>
            {table.columns.map((column, index) => (
              <th key={index} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.slice(0, MOST_ROWS).map((row, index) => (
            <tr key={index}>
              {row.map((cell, place) =>
                most !== null && place === 0 ? (
                  <th key={place} scope="row">
                    {asScalar(cell)}
                  </th>
                ) : (
                  <Cell key={place} value={cell} most={most} right={place === index + 1} />
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > MOST_ROWS && (
        <p className="soft small">The first {MOST_ROWS} of {table.rows.length} rows.</p>
      )}
    </div>
  );
}

function Cell({ value, most, right }: { value: unknown; most: number | null; right: boolean }) {
  const text = asScalar(value) ?? JSON.stringify(value);
  if (most === null || typeof value !== "number" || value === 0) {
    return <td data-zero={value === 0 && most !== null ? true : undefined}>{text}</td>;
  }
  // Rare errors must show beside frequent hits: the square root lifts the small ones.
  const share = Math.round(Math.sqrt(value / Math.max(1, most)) * 70) + 8;
  const colour = right ? "var(--done)" : "var(--failed)";
  return (
    <td style={{ background: `color-mix(in srgb, ${colour} ${share * (right ? 0.6 : 1)}%, transparent)` }}>
      {text}
    </td>
  );
}
