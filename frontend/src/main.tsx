/** Where the page begins. */
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "@/app/query-client";
import { router } from "@/app/router";
import { theme } from "@/app/theme";
import { Toasts } from "@/components/ui/toasts";
import { experimentQuery } from "@/lib/api/queries/get-experiment";
import { meQuery } from "@/lib/api/session";
import { onSignedOut } from "@/lib/api/client";
import { onSessionEnd } from "@/lib/live/live";
import "@/styles/base.css";

function endSession(): void {
  if (queryClient.getQueryData(meQuery.queryKey) == null) return;
  queryClient.setQueryData(meQuery.queryKey, null);
  void router.invalidate();
}

/** A failure is met again, and told, by the page that needs the answer. */
function asksAgain(): void {}

// Asked for at once, beside the router's own work: each would otherwise wait for the one before.
queryClient.query(meQuery).catch(asksAgain);
const opened = /^\/experiments\/([0-9a-f-]{36})$/.exec(location.pathname)?.[1];
if (opened !== undefined) {
  void import("@/features/run/run-page");
  queryClient.query(experimentQuery(opened)).catch(asksAgain);
}

onSignedOut(endSession);
onSessionEnd(endSession);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <Toasts />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
