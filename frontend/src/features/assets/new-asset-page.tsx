export function NewAssetPage() { return null; }
