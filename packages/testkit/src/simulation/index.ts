export type { Violation } from './checker.ts';
export { makePlan } from './make-plan.ts';
export type { Plan } from './plan.ts';
export { type ShrinkOptions, type Shrunk, shrink } from './shrink.ts';
export { type SimulateOptions, type Simulation, type Subject, simulate } from './simulate.ts';
