/** Says that what is shown may be old, and when we try again. Not shown for a short hiccup. */
import { Button } from "@mantine/core";
import { IconCloudOff } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { live, useConnection } from "@/lib/live/live";
import classes from "./connection-banner.module.css";

const HICCUP_MS = 1500;

export function ConnectionBanner() {
  const { phase, failures } = useConnection();
  const away = failures > 0 && (phase === "waiting" || phase === "connecting");
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!away) return;
    const timer = setTimeout(() => setShown(true), HICCUP_MS);
    return () => {
      clearTimeout(timer);
      setShown(false);
    };
  }, [away]);
  if (!shown) return null;
  return (
    <div className={classes.banner} role="status">
      <IconCloudOff size={17} aria-hidden />
      <span className="grow">
        The live connection is away; reconnecting. What you see may be a little old, nothing is lost.
      </span>
      <Button size="compact-xs" variant="default" onClick={() => live.connection.retryNow()}>
        Reconnect now
      </Button>
    </div>
  );
}
