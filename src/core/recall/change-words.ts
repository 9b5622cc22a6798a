/** The text says that something is not as it was. */
export const CUE_WORDS =
  /\b(?:now|nowadays|these days|no longer|any ?more|any longer|instead|rather than|from now on|as of|effective|starting|since|from (?:today|tomorrow|next|monday|tuesday|wednesday|thursday|friday|january|february|march|april|may|june|july|august|september|october|november|december)|correction|updated?|change of plans?|turns? out|turned out|after all|actually|scrap|forget|never ?mind|on second thoughts?|new|another|again|back to|in (?:place|lieu|favou?r) of|gone|history)\b|→|->/i;
/** The same as a verb: what was changes to what is. */
export const CUE_VERBS =
  /\b(?:chang(?:es|ed|ing)|switch(?:ed|es|ing)|mov(?:ed|es|ing)|migrat(?:ed|es|ing)|convert\w+|transition(?:ed|s|ing)|shift(?:ed|s)|swap\w*|replac\w+|supersed\w+|substitut\w+|renam\w+|rebrand\w*|upgrad\w+|downgrad\w+|bump\w*|rais\w+|lower(?:ed|s|ing)|increas\w+|decreas\w+|reduc\w+|cut|extend\w*|shorten\w*|doubl\w+|halv\w+|tripl\w+|lengthen\w*|tighten\w*|relaxed|postpon\w+|delay\w*|deferr?\w*|push\w*|pulled|brought|slipped|transferred|hand(?:ed|s) \w+|took over|tak(?:es|en|ing) over|inherit\w*|promoted|appoint\w*|succe(?:eds|eded)|stepp\w+|left|leav(?:es|ing)|quits?|resign\w*|depart\w*|relocat\w+|settled|revert\w*|adopt\w*|revis\w+|amend\w*|adjust\w*|re(?!quire|quest|port|cent|lease|fresh|ason|main|sult|view|spons|call|member|act|ceiv|cord|pl|ad)\w{4,}(?:ed|en|t)|consolidat\w+|merged|expand\w*|shrank|shrunk|shrinks|grew|grown|enlarg\w+|dropp?\w*|rose|risen|climbed|fell|fallen|went (?:up|down|from|to|back|with)|became|become|ditch\w+|sold|bought|stopp?\w*|gave up|given up|retir\w+|cancel\w*|deprecat\w+|remov\w+|abandon\w+|ported|flashed|turn(?:ed)?|broke up|split up|divorced|separated|down to|up to|make (?:it|that)|joined)\b|→|->/i;
/** Something beside what was there before, not in its place. */
export const ADDITION = /\b(?:also|as well|too|another|additional(?:ly)?|in addition|besides|plus|a second|still)\b/i;
export const REPLACEMENT = /\b(?:instead|no longer|any ?more|replac\w+|rather than|in place of|from \S+ to|not)\b|→|->/i;

/** Ends what a word of change speaks of. */
const PHRASE_END =
  '(?=\\s+(?:to|into|onto|with|by|for|in|at|on|from|because|since|so|after|until|anymore|any|but|and|we|it|they|he|she|is|was|are|as|has|have|now|again|of us|team)\\b|[,.;:!?)](?=\\s|$)|$)';
/** Before a value that does not hold any more. */
const BEFORE_OLD = [
  'from',
  'instead of',
  'rather than',
  'in (?:place|lieu) of',
  'in favou?r over',
  'replac(?:es|ed|ing)(?! by\\b)',
  'supersed(?:es|ed|ing)(?! by\\b)',
  'succe(?:eds|eded|eding)',
  'no longer(?: be)?',
  'no more',
  'stop(?:s|ped)?(?: using)?',
  'quit',
  'drop(?:s|ped)?',
  'ditch(?:ed|es)?',
  '(?:scrap|forget|ignore|disregard)(?:ped)?(?: about)?',
  'abandon(?:ed)?',
  'cancel(?:l?ed)?',
  'retired',
  'removed',
  'deleted',
  'g[ai]ve(?:n)? up(?: on)?',
  '(?:has |have )?left',
  'sold',
  'mov(?:ed|ing) (?:away |on )?(?:off|from)',
  'off',
  'done with',
  'got rid of',
  'phas(?:ed|ing) out',
  'swapped',
  'traded in',
  'shut down',
  'switched off',
  'renamed',
  'not',
  "(?:is|are|was|were|does|do|did)n[’']t",
  'used to',
  'never mind',
];
export const AFTER_TRIGGER = new RegExp(
  `\\b(?:${BEFORE_OLD.join('|')})\\s+(?:at |in |on |with |to )?(?:the |a |an |our |my |his |her |their )?(?!(?:to|into|with|by|for|in|at|on|from|any|the)\\b)(.{1,60}?)${PHRASE_END}`,
  'gi',
);
/** Behind one. */
export const BEHIND_OLD =
  /((?:[^\s,.;:!?]+\s+){1,4}?)(?:(?:has |have )?(?:was|were|is|are|been|got|gets)\s+(?:\w+ly |now )?(?:replaced|swapped|superseded|retired|cancell?ed|dropped|removed|deprecated|decommissioned|discontinued|scrapped|shut down|switched off|turned off|abandoned|renamed|gone|out|history|over|dead|off the table|no more|phased out|sold)\b|(?:has |have |is )?(?:left|leaving|quit|resigned|retired|departed|stepped down|moved on|handed|hands|gave|gone)\b|→|->)/gi;
export const GENERIC_OLD = new Set(
  'rule idea polici plan thing decis approach set setup convent us team compani be that it thi one all old former use'.split(' '),
);

/** `scrap that`, `make it 4 instead`: it speaks of what was said right before. */
export const ANAPHORA =
  /^\W*(?:(?:scrap|forget|ignore|strike|undo|disregard|cancel|never ?mind|drop) (?:that|this|it|what i said)\b|(?:no,? |actually,? |wait,? |correction[:,]? |on second thoughts?,? |sorry,? |oops,? )+(?:make|let'?s make|it'?s|it is|use|that'?s|set)\b)|\b(?:make|let'?s make) (?:it|that)\b/i;

export const RENAMED = /\b(?:renam\w+|rebrand\w*|(?:is |are )?(?:now )?called)\b/i;
export const BECOMES =
  /\b(?:switch\w*|chang\w+|mov\w+|migrat(?:ed|es|ing)|convert\w+|transition(?:ed|s|ing)|shift\w*|went|turn\w*|replac\w+|swapp\w+)\b[^,.;]{0,60}?\b(?:to|into|with|by|for)\s+(.{1,60}?)(?=\s+(?:with|by|for|in|at|on|from|because|since|so|after|until|and|but|we|it|they|as|now)\b|[,.;:!?)](?=\s|$)|$)/gi;

export const OPPOSITES: readonly (readonly [string, string])[] =
  'enabl:disabl allow:forbid allow:prohibit permit:forbid alwai:never requir:option activ:inact open:close public:privat accept:reject mandatori:option includ:exclud'
    .split(' ')
    .map((pair) => pair.split(':') as [string, string]);
export const NEGATED = /\b(?:not|never|cannot|no)\b|n['’]t\b/i;
