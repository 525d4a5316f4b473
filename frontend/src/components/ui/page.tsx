/** The frame of a page: what it is, what can be done, and the content below. */
import { useEffect, type ReactNode } from "react";
import classes from "./page.module.css";

interface PageProps {
  title: string;
  /** a line under the title */
  about?: ReactNode;
  actions?: ReactNode;
  /** the content fills the window and scrolls inside itself */
  full?: boolean;
  /** stands before the title */
  badge?: ReactNode;
  children: ReactNode;
}

export function Page({ title, about, actions, full = false, badge, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Gristmill`;
  }, [title]);
  return (
    <div className={classes.page} data-full={full || undefined}>
      <header className={classes.header}>
        <div className={classes.titles}>
          <div className={classes.titleRow}>
            <h1 className={classes.title} title={title}>
              {title}
            </h1>
            {badge}
          </div>
          {about !== undefined && <div className={classes.about}>{about}</div>}
        </div>
        {actions !== undefined && <div className={classes.actions}>{actions}</div>}
      </header>
      <div className={classes.body}>{children}</div>
    </div>
  );
}

export function Section({
  title,
  about,
  actions,
  children,
}: {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className={classes.section} aria-label={title}>
      <div className={classes.sectionHead}>
        <div>
          <h2>{title}</h2>
          {about !== undefined && <p className="soft small">{about}</p>}
        </div>
        {actions}
      </div>
      {children}
    </section>
  );
}
