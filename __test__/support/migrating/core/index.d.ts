export declare class ConflictError extends Error {}
