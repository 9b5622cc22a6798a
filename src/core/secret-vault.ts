/** Stored secrets. All methods throw AppError `storage_corrupt`, `storage_version`, `storage_failed`. */
export interface SecretVault {
  /** Sorted. */
  names(): Promise<string[]>;
  find(name: string): Promise<SecretDates | undefined>;
  /** @throws AppError `secrets_locked`, `overloaded` when as many are stored as may be */
  put(name: string, value: string): Promise<void>;
  /** False when there was none. */
  remove(name: string): Promise<boolean>;
  /** Undefined when there is none. @throws AppError `secrets_locked` */
  read(name: string): Promise<string | undefined>;
}

export interface SecretDates {
  /** ISO 8601 UTC. */
  readonly createdAt: string;
  readonly updatedAt: string;
}
