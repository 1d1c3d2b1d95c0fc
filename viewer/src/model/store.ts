// A value that is replaced as a whole, with notification of subscribers.

/** See the module. */
export class Store<S extends object> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: S) {}

  get state(): S {
    return this.value;
  }

  /** Replaces some fields. Notifies no subscriber if nothing changed. */
  set(part: Partial<S>): void {
    const keys = Object.keys(part) as (keyof S)[];
    if (keys.every((key) => Object.is(this.value[key], part[key]))) return;
    this.value = { ...this.value, ...part };
    for (const listener of [...this.listeners]) listener();
  }

  /** Calls `listener` after every change, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
