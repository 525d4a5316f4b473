export function NewExperimentPage() { return null; }
