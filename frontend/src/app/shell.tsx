/** The frame around every page: where one can go, who one is, and whether we are connected. */
import { ActionIcon, Menu, Tooltip, useMantineColorScheme } from "@mantine/core";
import {
  IconActivityHeartbeat,
  IconBooks,
  IconDatabase,
  IconFlask2,
  IconFunction,
  IconLayoutSidebarLeftCollapse,
  IconLayoutSidebarLeftExpand,
  IconMenu2,
  IconMoon,
  IconSchema,
  IconSettings,
  IconShape3,
  IconSun,
  IconUser,
  IconX,
  type Icon,
} from "@tabler/icons-react";
import { Link, Outlet } from "@tanstack/react-router";
import { useState } from "react";
import { Mill } from "@/components/ui/states-of-a-page";
import { useMe } from "@/lib/api/session";
import { useSignOut } from "@/features/session/api/sign-out";
import { ConnectionBanner } from "./connection-banner";
import classes from "./shell.module.css";

const NAVIGATION: { title: string | null; items: { to: string; label: string; icon: Icon }[] }[] = [
  {
    title: null,
    items: [
      { to: "/experiments", label: "Experiments", icon: IconFlask2 },
      { to: "/monitor", label: "Monitor", icon: IconActivityHeartbeat },
    ],
  },
  {
    title: "Library",
    items: [
      { to: "/library/toolchains", label: "Toolchains", icon: IconSchema },
      { to: "/library/algorithms", label: "Algorithms", icon: IconFunction },
      { to: "/library/libraries", label: "Libraries", icon: IconBooks },
      { to: "/library/dataformats", label: "Data formats", icon: IconShape3 },
      { to: "/library/databases", label: "Databases", icon: IconDatabase },
    ],
  },
];

const NARROW_KEY = "gristmill-narrow";

export function Shell() {
  const [open, setOpen] = useState(false);
  const [narrow, setNarrow] = useState(() => localStorage.getItem(NARROW_KEY) === "1");
  const toggleNarrow = () => {
    localStorage.setItem(NARROW_KEY, narrow ? "0" : "1");
    setNarrow(!narrow);
  };
  return (
    <div className={classes.shell} data-narrow={narrow || undefined}>
      <a href="#content" className={classes.skip}>
        Skip to the content
      </a>
      <header className={classes.top}>
        <ActionIcon
          variant="subtle"
          size="lg"
          aria-label={open ? "Close the menu" : "Open the menu"}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? <IconX size={20} /> : <IconMenu2 size={20} />}
        </ActionIcon>
        <Brand />
      </header>
      <nav className={classes.side} data-open={open || undefined} aria-label="Main">
        <div className={classes.brandRow}>
          <Brand />
        </div>
        <Links onFollow={() => setOpen(false)} />
        <div className={classes.foot}>
          <Person />
          <div className={classes.tools}>
            <SchemeToggle />
            <Tooltip label={narrow ? "Widen the menu" : "Narrow the menu"} position="right">
              <ActionIcon
                className={classes.narrower}
                variant="subtle"
                aria-label={narrow ? "Widen the menu" : "Narrow the menu"}
                onClick={toggleNarrow}
              >
                {narrow ? (
                  <IconLayoutSidebarLeftExpand size={18} />
                ) : (
                  <IconLayoutSidebarLeftCollapse size={18} />
                )}
              </ActionIcon>
            </Tooltip>
          </div>
        </div>
      </nav>
      {open && <button type="button" className={classes.veil} aria-label="Close the menu" onClick={() => setOpen(false)} />}
      <div className={classes.content}>
        <ConnectionBanner />
        <main id="content" className={classes.main} tabIndex={-1}>
          <Outlet />
        </main>
      </div>
    </div>
  );
}

function Brand() {
  return (
    <Link to="/experiments" className={classes.brand} aria-label="Gristmill, to the experiments">
      <Mill size={26} />
      <span className={classes.word}>Gristmill</span>
    </Link>
  );
}

function Links({ onFollow }: { onFollow: () => void }) {
  const me = useMe();
  const groups =
    me?.admin === true
      ? [
          ...NAVIGATION,
          { title: null, items: [{ to: "/admin", label: "Administration", icon: IconSettings }] },
        ]
      : NAVIGATION;
  return (
    <div className={classes.links}>
      {groups.map((group, index) => (
        <div key={index} className={classes.group}>
          {group.title !== null && <span className={classes.groupTitle}>{group.title}</span>}
          {group.items.map(({ to, label, icon: Shape }) => (
            <Link key={to} to={to} className={classes.link} title={label} onClick={onFollow}>
              <Shape size={18} stroke={1.7} aria-hidden />
              <span className={classes.word}>{label}</span>
            </Link>
          ))}
        </div>
      ))}
    </div>
  );
}

function Person() {
  const me = useMe();
  const signOut = useSignOut();
  if (me === null) return null;
  return (
    <Menu position="top-start" width={200}>
      <Menu.Target>
        <button type="button" className={classes.person} aria-label={`Account of ${me.username}`}>
          <span className={classes.initial} aria-hidden>
            {me.username.slice(0, 1).toUpperCase()}
          </span>
          <span className={`fit ${classes.word ?? ""}`}>{me.username}</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item
          leftSection={<IconUser size={16} />}
          renderRoot={(props) => <Link to="/account" {...props} />}
        >
          Account
        </Menu.Item>
        <Menu.Item leftSection={<IconX size={16} />} onClick={() => signOut.mutate()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function SchemeToggle() {
  // The default would switch transitions off with a <style>, which the page's policy forbids.
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const dark =
    colorScheme === "dark" ||
    (colorScheme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  const label = dark ? "Light colours" : "Dark colours";
  return (
    <Tooltip label={label} position="right">
      <ActionIcon
        variant="subtle"
        aria-label={label}
        onClick={() => setColorScheme(dark ? "light" : "dark")}
      >
        {dark ? <IconSun size={18} /> : <IconMoon size={18} />}
      </ActionIcon>
    </Tooltip>
  );
}
