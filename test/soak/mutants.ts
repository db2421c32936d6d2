export async function runMutants(_only?: string): Promise<boolean> {
  return false
}
