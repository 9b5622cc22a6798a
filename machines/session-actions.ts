import { abortSteps } from './steps/abort-steps.ts';
import { compactionSteps } from './steps/compaction-steps.ts';
import { lifecycleSteps } from './steps/lifecycle-steps.ts';
import { messageSteps } from './steps/message-steps.ts';
import { modelSteps } from './steps/model-steps.ts';
import { toolSteps } from './steps/tool-steps.ts';
import { turnSteps } from './steps/turn-steps.ts';

/** Every action of the session machine by the name its graph shows; each is a pure function of context and event. */
export const sessionSteps = {
  ...lifecycleSteps,
  ...turnSteps,
  ...modelSteps,
  ...toolSteps,
  ...compactionSteps,
  ...abortSteps,
  ...messageSteps,
};
